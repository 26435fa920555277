"""What options of Spark's other streaming sources and sinks are called here: Kafka's and Delta's names, in lower case.

They are not taken as options of ours, because their values differ (offsets, Kafka's JSON); the error names ours. Those
that are most like their counterpart here (`startingTimestamp`, `maxOffsetsPerTrigger`) need no entry: the nearest key
is suggested for any unknown one.
"""

from __future__ import annotations

OURS = {
    "startingoffsets": "start-stream-cut",
    "startingposition": "start-stream-cut",
    "endingoffsets": "end-stream-cut",
    "kafka.bootstrap.servers": "controller-uri",
    "subscribe": "stream",
    "topic": "stream",
    "kafka.group.id": "consumer",
    "groupidprefix": "consumer",
    "compression": "codec",
    "key": "routing-key",
    "partitionby": "routing-key",
}
"""Keys of others, with the key here that stands for the same thing."""

TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
"""Spark's own options of reads by name, which come to no source. In other spellings they are none."""

BY_OPTIONS = (
    "The options 'scope' and 'stream' name a table: .option('scope', 'iot').option('stream', 'sensor'). By its name in "
    "a catalog it is read with spark.read.table or spark.readStream.table, and written with df.writeTo or "
    "writeStream.toTable."
)
"""How tables are named where no statement names one."""
_NO_CHANGES = "Events of a stream are neither changed nor deleted: leave the option out."
INSTEAD = {
    "path": BY_OPTIONS,
    "table": BY_OPTIONS,
    "ignoredeletes": _NO_CHANGES,
    "ignorechanges": _NO_CHANGES,
    "skipchangecommits": _NO_CHANGES,
    "readchangefeed": "Changes are read with spark.read.changes(table) and spark.readStream.changes(table).",
    "readchangedata": "Changes are read with spark.read.changes(table) and spark.readStream.changes(table).",
}
"""Keys of others that have no counterpart here, with what to do instead."""
