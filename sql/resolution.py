"""Resolve option texts of several places to typed values, or raise an error that says what to write instead."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeVar

from pyspark_pravega.errors import InvalidOptionError, shorten

from .identifiers import find_nearest
from .names_elsewhere import OURS, REMARKS, TIME_TRAVEL, find_replacement
from .option_types import Option, SettableAs

T = TypeVar("T")


class Source(IntEnum):
    """Where a value came from; the greater wins."""

    DEFAULT = 0
    ENVIRONMENT = 1
    CATALOG = 2
    PROPERTY = 3
    QUERY = 4


# Keys that Spark itself adds to ours, in lower case.
_SPARK_PROPERTIES = frozenset(
    ("provider", "location", "comment", "owner", "external", "is_managed_location", "collation", "table_type")
)
_SPARK_OPTIONS = frozenset(("checkpointlocation", "queryname"))
_SENSITIVE = re.compile(r"pass|pwd|secret|token|credential|key|auth")
_SENSITIVE_WORDS = ("password", "passphrase", "secret", "token", "credentials")
_VARIABLE = re.compile(r"\$\{env:([^}]+)\}")


@dataclass(frozen=True)
class Options:
    """Resolved options: typed values by declaration. Printing shows no secret; safe to pickle."""

    _values: Mapping[str, Any] = field(repr=False)
    _texts: Mapping[str, str] = field(repr=False)
    _sources: Mapping[str, Source] = field(repr=False)
    _secrets: frozenset[str] = field(repr=False)
    _names: Mapping[str, str] = field(repr=False)
    _withheld: frozenset[str] = frozenset()
    """Options that the environment sets, where this does not count."""

    def get(self, option: Option[T]) -> T:
        """Return the value that counts: the strongest setting, else the default."""
        value: T = self._values.get(option.key, option.default)
        return value

    def source(self, option: Option[Any]) -> Source:
        """Return where the value that counts was set."""
        return self._sources.get(option.key, Source.DEFAULT)

    def keys_of(self, source: Source) -> list[str]:
        """Return the keys of the options whose values that count were set at a source."""
        return [key for key, each in self._sources.items() if each is source]

    def is_set(self, option: Option[Any]) -> bool:
        """Return whether the option is set anywhere, even to its default."""
        return option.key in self._values

    def text(self, option: Option[Any]) -> str | None:
        """Return the option's text as it was given, None when it was not set. May be a secret."""
        return self._texts.get(option.key)

    def name(self, option: Option[Any]) -> str:
        """Return the option's key as messages show it: in the user's spelling, if the option is set."""
        return self._names.get(option.key, option.key)

    def texts(self) -> dict[str, str]:
        """Return all settings as text, including secrets: for another process, never to be shown."""
        return dict(self._texts)

    def without_secrets(self) -> Options:
        """Return the same for tasks, which connect by a ClientConfig and need no login of a lake."""
        values, texts = (
            {key: each[key] for key in each if key not in self._secrets} for each in (self._values, self._texts)
        )
        return replace(self, _values=values, _texts=texts)

    def require(self, option: Option[T | None]) -> T:
        """Return the value of an option without a default. Raises InvalidOptionError, which says how to set it."""
        value = self.get(option)
        if value is None:
            variable = f", or by the environment variable {option.env}" if option.env else ""
            hint = f" {option.hint}" if option.hint else ""
            if option.key in self._withheld:
                variable = ""
                hint = f" The value of {option.env} does not count beside an address that an option gives."
            raise InvalidOptionError(
                f"The option '{option.key}' is needed, but not set. Set it as "
                f"{option.allowed.alternatives()}{variable}.{hint}"
            )
        return value

    def __repr__(self) -> str:
        shown = {key: "*****" if key in self._secrets else text for key, text in self._texts.items()}
        return f"Options({shown})"


class Resolution:
    """Collects the texts of one statement, strongest place first, into `Options`."""

    def __init__(self, declarations: Mapping[str, Option[Any]], environment: Mapping[str, str]) -> None:
        self._declarations = declarations
        self._environment = environment
        self._values: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        self._names: dict[str, str] = {}
        self._withheld: set[str] = set()

    def add(self, use: SettableAs, source: Source, settings: Mapping[str, str]) -> None:
        """Add the settings of one place. All are checked, but those that a stronger place has set do not count.

        Raises InvalidOptionError, one for all the keys that the place cannot have.
        """
        folded = _fold_case(settings, use, self._declarations)
        refused: dict[str, str] = {}
        for key, (name, value) in folded.items():
            self._check_key(key, name, value, use, refused)
        if refused:
            raise InvalidOptionError(_join_refusals(refused))
        for key, (name, value) in folded.items():
            option = self._declarations[key]
            text = self._expand(option, value, f"catalog conf '{key}'") if use is SettableAs.CATALOG else value
            type = option.property_type if use is SettableAs.PROPERTY else None
            self._set(option if type is None else replace(option, type=type), name, text, source, use.describe())

    def add_environment(self, withheld: frozenset[str]) -> None:
        """Add the environment's values of options that no place has set, but for those of the keys `withheld`."""
        for option in self._declarations.values():
            # Unset and empty mean the same for environment variables.
            if option.env and option.key not in self._values and self._environment.get(option.env):
                if option.key in withheld:
                    self._withheld.add(option.key)
                    continue
                text, where = self._environment[option.env], f"environment variable {option.env}"
                if option.key.endswith("*"):
                    text = self._expand(option, _parse(option, option.key, text, where), where)
                self._set(option, option.key, text, Source.ENVIRONMENT, where)

    def options(self) -> Options:
        secrets = frozenset(key for key in self._values if self._declarations[key].secret)
        return Options(self._values, self._texts, self._sources, secrets, self._names, frozenset(self._withheld))

    def _set(self, option: Option[Any], name: str, text: str, source: Source, where: str) -> None:
        value = _parse(option, name, text, where)
        if option.key not in self._values:
            self._names[option.key] = name
            self._values[option.key] = value
            self._texts[option.key] = text
            self._sources[option.key] = source

    def _expand(self, option: Option[Any], text: str, where: str) -> str:
        """Read a secret to which a setting only refers, as `${env:NAME}`, because confs are shown and stored."""
        if not option.secret:
            return text
        if option.key.endswith("*"):
            properties = json.loads(text).items()
            texts = {key: self._expand_reference(f"property '{key}' of {where}", one) for key, one in properties}
            return json.dumps(texts, sort_keys=True)
        return self._expand_reference(where, text)

    def _expand_reference(self, where: str, text: str) -> str:
        reference = _VARIABLE.fullmatch(text.strip())
        if reference is None:
            return text
        if not self._environment.get(reference[1]):
            raise InvalidOptionError(
                f"The {where} refers to the environment variable {reference[1]}, which is not set in the process that "
                "reads it: the catalog service of a driver, or a program without Spark."
            )
        return self._environment[reference[1]]

    def _check_key(self, key: str, name: str, text: str, use: SettableAs, refused: dict[str, str]) -> None:
        """Add to `refused`, if a place cannot have a key: the sentence that refuses it, and the one that helps."""
        option = self._declarations.get(key)
        if option is None:
            keys = [declared for declared, candidate in self._declarations.items() if use & candidate.allowed]
            near = OURS[key] if OURS.get(key) in keys else _find_nearest_key(key, keys)
            # The value may be a secret under a mistyped key: it is shown only when the key looks harmless.
            harmless = not _is_like_secret(key) and not (near and self._declarations[near].secret)
            shown = f" (value '{shorten(text)}')" if harmless and "@" not in text else ""
            hint = f"Did you mean '{_spell_like(key, near)}'?" if near else f"Valid keys: {', '.join(keys)}."
            if use is SettableAs.READ:
                hint = _suggest_time_travel(key) or hint
            sentence = f"There is no {use.describe()} '{shorten(name)}'{shown}."
            refused[sentence] = " ".join(filter(None, (find_replacement(key) or hint, REMARKS.get(key))))
        elif use is SettableAs.PROPERTY and option.connection:
            refused[
                f"'{name}' cannot be a table property: it belongs to the user who connects, and table properties"
            ] = f"are stored for all to see. Set it as {option.allowed.alternatives()}."
        elif not use & option.allowed:
            refused[f"'{name}' cannot be {use.alternatives()}."] = f"Set it as {option.allowed.alternatives()}."


def _join_refusals(refused: Mapping[str, str]) -> str:
    """Return the sentences of all keys. Advice that several refusals share follows only the last."""
    hints = list(refused.values())
    return " ".join(
        sentence if hint in hints[number + 1 :] else f"{sentence} {hint}"
        for number, (sentence, hint) in enumerate(refused.items())
    )


def normalize_key(key: str, declarations: Mapping[str, Option[Any]]) -> str:
    """Return a key as it is declared, whatever its case, even if it is in camel case."""
    low = key.lower()
    if low in declarations:
        return low
    return next((declared for declared in declarations if declared.replace("-", "").lower() == low), low)


def _spell_like(key: str, declared: str) -> str:
    """Spell a declared key like the given one: in camel case if that has no dash."""
    if "-" in key or "_" in key:
        return declared
    first, *others = declared.split("-")
    return first + "".join(word.capitalize() for word in others)


def _find_nearest_key(key: str, keys: list[str]) -> str | None:
    """Return the name that is most similar to a mistyped key, which may lack the name's prefix."""
    spelling = key.replace("_", "-")
    names = {name.replace("-", ""): name for name in keys}
    matches = difflib.get_close_matches(spelling.replace("-", ""), names, 1, 0.6)
    if matches:
        return names[matches[0]]
    tails = {name.rpartition(".")[2]: name for name in keys}
    matches = difflib.get_close_matches(spelling.rpartition(".")[2], tails, 1, 0.75)
    return tails[matches[0]] if matches else None


def _suggest_time_travel(key: str) -> str | None:
    """Return what to write instead of a key that is similar to one of Spark's own options for time travel."""
    name = find_nearest(re.sub("[-_]", "", key), TIME_TRAVEL, least=0.8)
    if name is None:
        return None
    return f"Spark's own option is '{name}', with the name of a table: spark.read.option('{name}', ...).table('...')."


def _is_like_secret(key: str) -> bool:
    words = re.split(r"[^a-z]+", key)
    return bool(_SENSITIVE.search(key)) or any(
        difflib.get_close_matches(word, _SENSITIVE_WORDS, 1, 0.7) for word in words
    )


def _fold_case(
    settings: Mapping[str, str], use: SettableAs, declarations: Mapping[str, Option[Any]]
) -> dict[str, tuple[str, str]]:
    """Return all but Spark's texts by declared key, each with its key for messages; spellings of a key must agree."""
    folded: dict[str, tuple[str, str]] = {}
    for key, text in settings.items():
        low = key.lower()
        if use is SettableAs.PROPERTY and (low in _SPARK_PROPERTIES or low.startswith("option.")):
            continue  # CREATE TABLE ... OPTIONS (k v) arrives as `k` and again as `option.k`
        if use in SettableAs.READ | SettableAs.WRITE and low in _SPARK_OPTIONS:
            continue
        declared = normalize_key(key, declarations)
        # Spark passes some keys on in lower case.
        name = key if declared not in declarations or key != low else _spell_like(key, declared)
        before, same = folded.get(declared, (name, text))
        if same != text:
            raise InvalidOptionError(
                f"The {use.describe()} '{shorten(before)}' is given twice with different values"
                f"{f', once as {name!r}' if name != before else ''}; keep one."
            )
        folded[declared] = name, text
    return folded


def _parse(option: Option[T], name: str, text: str, where: str) -> T:
    stripped = text.strip()
    try:
        if not stripped:
            raise ValueError("it is empty")
        # A password may begin or end with a blank.
        return option.type.parse(text if option.secret else stripped)
    except ValueError as error:
        shown = "" if option.secret or "@" in text else f" '{shorten(text)}'"
        raise InvalidOptionError(f"The value{shown} of '{name}' ({where}) is not valid: {error}.") from None
