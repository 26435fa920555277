"""Quote names as SQL does, check whether Pravega can hold them, and suggest names for mistyped ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import partial

from pyspark_pravega.errors import InvalidNameError

MAX_SCOPE_NAME = 255
"""Characters in a scope's name."""
MAX_STREAM_NAME = 250
"""Characters in a stream's name: the server keeps five more for its own prefixes."""

_VALID = re.compile(r"[A-Za-z0-9.-]+")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_NEAR = 0.7
"""The least similarity of two names, from 0 to 1: that of `senor` and `sensor` is 0.9."""


def quote(name: str) -> str:
    """Return one part of an identifier as Spark SQL reads it, in backticks only where needed.

    Names that are SQL keywords need none: Spark's default mode reserves no words.
    """
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def quote_all(parts: Iterable[str]) -> str:
    """Join the parts of a multi-part identifier, for example ``pravega.iot.`sensor-agg` ``."""
    return ".".join(quote(part) for part in parts)


def split_name(name: str) -> tuple[str, ...]:
    """Return the parts of a dotted name; those in backticks stay as they are. Raises InvalidNameError."""
    parts = list(_PART.finditer(name))
    if ".".join(part[0] for part in parts) != name or not parts:
        raise InvalidNameError(
            f"'{name}' is not a name: write its parts with dots between them, for example iot.sensor, and put a part "
            "that contains a '.' in backticks"
        )
    return tuple((quoted or "").replace("``", "`") or bare for quoted, bare in (part.groups() for part in parts))


def is_internal(name: str) -> bool:
    """Return whether a scope, stream or key-value table is hidden: names that begin with `_` are internal."""
    return name.startswith("_")


_OF_AUTO_CDC = "__spark_autocdc_"
"""How the names of tables begin that AUTO CDC of Spark's pipelines makes for itself."""


def hyphenate(name: str) -> str:
    """Return a name with `-` in place of each `_`. Internal names, which begin with `_`, stay as they are."""
    return name if is_internal(name) else name.replace("_", "-")


def hyphenate_table(name: str) -> str:
    """Return a table's name with `-` in place of each `_`. No stream can have the `__` in front of AUTO CDC's names."""
    return hyphenate(name.lstrip("_") if name.startswith(_OF_AUTO_CDC) else name)


def replace_hyphens(name: str) -> str:
    """Return the name from which `hyphenate` makes this one; the name itself if there is no other."""
    other = name.replace("-", "_")
    return other if hyphenate(other) == name else name


def check_catalog_name(catalog: str) -> None:
    """Raise InvalidNameError unless Spark can use the name for a catalog."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", catalog):
        raise InvalidNameError(
            f"The catalog name '{catalog}' is not valid: use letters, digits and '_', for example pravega."
        )
    if catalog in ("spark_catalog", "system", "session"):
        raise InvalidNameError(f"The catalog name '{catalog}' is Spark's own; choose another, for example pravega.")


def find_nearest(name: str, names: Iterable[str], *, least: float = _NEAR) -> str | None:
    """Return the known name that is most similar to a name, ignoring case; None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(names)}
    matches = difflib.get_close_matches(name.lower(), by_lower, 1, least)
    return by_lower[matches[0]] if matches else None


def ask_did_you_mean(name: str | None) -> str:
    """Return the question that follows a message; empty without a name."""
    return "" if name is None else f" Did you mean {name}?"


def _check_new(kind: str, limit: int, name: str) -> None:
    """Raise InvalidNameError unless something of this name can be created and opened by every client."""
    if not name:
        raise InvalidNameError(f"The name of a {kind} may not be empty.")
    if len(name) > limit:
        raise InvalidNameError(
            f"The {kind} name `{name[:40]}...` has {len(name):,} characters; Pravega allows at most {limit}. Choose a "
            "shorter one."
        )
    if is_internal(name):
        raise InvalidNameError(
            f"The {kind} name {quote(name)} begins with '_'; such names are internal to Pravega and hidden. "
            + _suggest(name)
        )
    if not _VALID.fullmatch(name):
        strange = "".join(sorted(set(_VALID.sub("", name))))
        raise InvalidNameError(
            f"The {kind} name {quote(name)} has characters that Pravega clients cannot open: {strange!r}; allowed are "
            "letters A-Z and a-z, digits, '.' and '-'. " + _suggest(name)
        )
    if name in (".", ".."):
        raise InvalidNameError(
            f"The {kind} name {quote(name)} means a folder in the paths that Pravega builds from names, so nothing "
            "could be written to it. Choose another name."
        )


check_new_scope = partial(_check_new, "scope", MAX_SCOPE_NAME)
check_new_stream = partial(_check_new, "stream", MAX_STREAM_NAME)
check_new_view = partial(_check_new, "view", MAX_STREAM_NAME)  # views are named like tables


def _suggest(name: str) -> str:
    candidate = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
    # Always with backticks: the suggestion usually contains a '-', and must work when pasted.
    return f"Use for example `{candidate}` (with the backticks)." if candidate else "Choose another name."
