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
    of_table: bool = False
    """The table's property names the dead-letter stream, so a scan does not make it with the rights of its reader."""

    @property
    def every_event_is_a_row(self) -> bool:
        """Return whether a scan returns as many rows as it decodes events."""
        return self.mode != DROPMALFORMED


def read_bad_event_rule(options: o.Options, stream: Stream) -> BadEventRule:
    """Read the rule for a scan of `stream`.

    `dead-letter` implies dropping. If a mode and a dead-letter stream contradict each other, the one from the stronger
    source counts. Raises InvalidOptionError if both have the same source, and for an invalid target: a table's property
    may only name a stream of the table's scope, whatever other programs have stored.
    """
    mode, target = options.get(o.MODE), options.get(o.DEAD_LETTER)
    if target is None:
        return BadEventRule(mode)
    if mode != DROPMALFORMED and options.is_set(o.MODE):
        source, beside = options.source(o.MODE), options.source(o.DEAD_LETTER)
        if source == beside:
            raise InvalidOptionError(
                f"'mode'='{mode}' contradicts 'dead-letter'='{target}', which takes bad events out of the result. "
                f"Leave one of them out, or set 'mode' to '{DROPMALFORMED}'."
            )
        if source > beside:
            return BadEventRule(mode)
    target_stream = _parse_target(target, stream)
    if target_stream == stream:
        if options.source(o.DEAD_LETTER) is o.Source.CATALOG:
            return BadEventRule(mode)  # a catalog's default is meant for other tables
        raise InvalidOptionError(
            f"'dead-letter'='{target}' is the stream that is read, so every bad event would add another one. Name "
            "another stream."
        )
    of_table = options.source(o.DEAD_LETTER) is o.Source.PROPERTY
    if of_table and target_stream.scope != stream.scope:
        raise InvalidOptionError(
            f"The table property 'dead-letter'='{shorten(target)}' of {stream} names a stream in another scope. Queries"
            " would write there with the rights of whoever reads the table, so a property may only name a stream in "
            f"the table's scope, '{stream.scope}': ALTER TABLE ... SET TBLPROPERTIES "
            f"('dead-letter'='{target_stream.name}'). A read option may name any: WITH "
            f"('dead-letter'='{target_stream}')."
        )
    return BadEventRule(DROPMALFORMED, target_stream, of_table)


def _parse_target(text: str, source: Stream) -> Stream:
    parts = text.split("/")
    if len(parts) > 2 or not all(parts):
        raise InvalidOptionError(
            f"'dead-letter'='{shorten(text)}' is not a stream. Write the name of a stream in the same scope, "
            "or scope/stream."
        )
    scope = hyphenate(parts[0]) if len(parts) == 2 else source.scope
    return Stream(scope, hyphenate(parts[-1]))
