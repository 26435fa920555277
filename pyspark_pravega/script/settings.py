"""A script's settings of streaming statements: `SET pravega.stream.*`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_pravega.sql.options import Options, resolve

PREFIX = "pravega.stream."
"""What the keys of script settings begin with."""


def settings_among(confs: Mapping[str, str]) -> Options:
    """Return the settings of streaming statements among the confs of a session. Raises InvalidOptionError."""
    ours = {key: text for key, text in confs.items() if key.lower().startswith(PREFIX)}
    return resolve(script={key: _without_quotes(text) for key, text in ours.items()}, env={})


def _without_quotes(text: str) -> str:
    """Take off the quotes of `SET key = 'text'`, which Spark keeps as a part of the value."""
    stripped = text.strip()
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\""
    return stripped[1:-1] if quoted else stripped
