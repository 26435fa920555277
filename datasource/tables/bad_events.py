"""Decides what becomes of events that cannot be decoded: reads the options `mode` and `dead-letter` as one rule."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate

FAILFAST, PERMISSIVE, DROPMALFORMED = "failfast", "permissive", "dropmalformed"


@dataclass(frozen=True)
class BadEventRule:
    """`mode` is one of the names above; `dead_letter` is where dropped events go, if anywhere."""

    mode: str = FAILFAST
    dead_letter: Stream | None = None

    @property
    def every_event_is_a_row(self) -> bool:
        """Return whether a scan returns as many rows as it decodes events."""
        return self.mode != DROPMALFORMED


def read_bad_event_rule(options: o.Options, stream: Stream) -> BadEventRule:
    """Read the rule for a scan of `stream`.

    `dead-letter` implies dropping. If a mode and a dead-letter stream contradict each other, the one from the stronger
    source counts. Raises InvalidOptionError if both have the same source, and for an invalid target.
    """
    mode, target = options.get(o.MODE), options.get(o.DEAD_LETTER)
    if target is None:
        return BadEventRule(mode)
    if mode != DROPMALFORMED and options.is_set(o.MODE):
        given, beside = options.source(o.MODE), options.source(o.DEAD_LETTER)
        if given == beside:
            raise InvalidOptionError(
                f"'mode'='{mode}' contradicts 'dead-letter'='{target}', which takes bad events out of the result. "
                f"Leave one of them out, or set 'mode' to '{DROPMALFORMED}'."
            )
        if given > beside:
            return BadEventRule(mode)
    found = _parse_target(target, stream)
    if found == stream:
        if options.source(o.DEAD_LETTER) is o.Source.CATALOG:
            return BadEventRule(mode)  # a catalog's default is meant for other tables
        raise InvalidOptionError(
            f"'dead-letter'='{target}' is the stream that is read, so every bad event would add another one. Name "
            "another stream."
        )
    return BadEventRule(DROPMALFORMED, found)


def _parse_target(text: str, source: Stream) -> Stream:
    parts = text.split("/")
    if len(parts) > 2 or not all(parts):
        raise InvalidOptionError(
            f"'dead-letter'='{shorten(text)}' is not a stream. Write the name of a stream in the same scope, "
            "or scope/stream."
        )
    scope = hyphenate(parts[0]) if len(parts) == 2 else source.scope
    return Stream(scope, hyphenate(parts[-1]))
