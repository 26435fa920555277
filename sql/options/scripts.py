"""Settings of streaming statements in scripts."""

from __future__ import annotations

from ..option_types import TEXT, TRIGGER, Option, SettableAs, one_of, optional

CHECKPOINT = Option(
    "pravega.stream.checkpoint",
    optional(TEXT),
    None,
    SettableAs.SCRIPT,
    "Directory of the checkpoints. Every streaming statement keeps its own in a folder below it that has its name.",
)
STREAM_NAME = Option(
    "pravega.stream.name",
    optional(TEXT),
    None,
    SettableAs.SCRIPT,
    "Name of a streaming statement, in its checkpoint's path, in messages and in Spark's web interface. Without it, "
    "that is the full name of the table that is written to; two statements with one table need names.",
)
TRIGGER_OF_BATCHES = Option(
    "pravega.stream.trigger",
    optional(TRIGGER),
    None,
    SettableAs.SCRIPT,
    "When a micro-batch begins: every so often, or with `available now` until all is read that was there at the start, "
    "in batches within the limits; `once` does that in one batch. Without it, when the one before ends.",
)
OUTPUT_MODE = Option(
    "pravega.stream.mode",
    one_of("append", "complete", "update"),
    "append",
    SettableAs.SCRIPT,
    "Spark's output mode. Tables of Pravega take `append`.",
    "append",
)
