"""Names of options of other sources and sinks (Kafka, Pulsar, Delta, Iceberg), in lower case, with our names.

They are not accepted as our options, because their values differ (offsets, Kafka's JSON); the error names ours. Those
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
    "topics": "streams",
    "topicspattern": "pattern",
    "kafka.group.id": "consumer",
    "groupidprefix": "consumer",
    "subscriptionname": "consumer",
    "predefinedsubscription": "consumer",
    "service.url": "controller-uri",
    "admin.url": "controller-uri",
    "startingtime": "start-timestamp",
    "stream-from-timestamp": "start-timestamp",
    "start-snapshot-id": "start-version",
    "end-snapshot-id": "end-version",
    "streaming-max-rows-per-micro-batch": "max-rows-per-trigger",
    "streaming-max-files-per-micro-batch": "max-bytes-per-trigger",
    "split-size": "max-bytes-per-task",
    "compression": "codec",
    "key": "routing-key",
    "partitionby": "routing-key",
}
"""Keys of others, with our key for the same thing."""

TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
"""Spark's own options of reads by name, which no source receives. Spark knows them in this spelling only."""

BY_OPTIONS = (
    "The options 'scope' and 'stream' name a table: .option('scope', 'iot').option('stream', 'sensor'). To name a "
    "table by its catalog instead, read it with spark.read.table or spark.readStream.table, and write it with "
    "df.writeTo or writeStream.toTable."
)
"""How to name a table where no statement names one."""
_NO_CHANGES = "Events of a stream are neither changed nor deleted: leave the option out."
_CHANGES = "Changes are read with spark.read.changes(table) and spark.readStream.changes(table)."
_SEGMENTS = (
    "Tasks follow the segments of the stream and its bytes: leave the option out. The table property "
    "'scaling.min-segments' says how many segments there are."
)
_CLIENT = (
    "That is a setting of Kafka's client: leave it out. The catalog's conf says how to reach Pravega: "
    "'controller-uri', 'security.username', 'request-timeout' and others."
)
_VERSIONS = "Versions are read by a table's name: SELECT ... FROM table VERSION AS OF"
_INSTEAD = {
    "path": BY_OPTIONS,
    "table": BY_OPTIONS,
    "ignoredeletes": _NO_CHANGES,
    "ignorechanges": _NO_CHANGES,
    "skipchangecommits": _NO_CHANGES,
    "streaming-skip-delete-snapshots": _NO_CHANGES,
    "streaming-skip-overwrite-snapshots": _NO_CHANGES,
    "readchangefeed": _CHANGES,
    "readchangedata": _CHANGES,
    "maxrecordsperpartition": _SEGMENTS,
    "assign": "A query reads all segments: leave the option out. Conditions on the routing key read only those that "
    "may hold it, and _segment is a hidden column.",
    "startingoffsetsbytimestampstrategy": "Leave it out: a read begins with the first version that was published from "
    "its time on.",
    "includeheaders": "Events of Pravega have no headers: leave the option out.",
    "kafkaconsumer.polltimeoutms": _CLIENT,
    "fetchoffset.numretries": _CLIENT,
    "fetchoffset.retryintervalms": _CLIENT,
    "snapshot-id": f"{_VERSIONS} 3.",
    "tag": f"{_VERSIONS} 'tag'.",
    "branch": f"A stream has no branches. {_VERSIONS} 'tag'.",
    "as-of-timestamp": f"{_VERSIONS} 3, or TIMESTAMP AS OF '2026-01-31 12:00:00'.",
}
"""Keys of others that have no counterpart here, with what to do instead."""

REMARKS = {
    "startingoffsets": "'earliest' and 'latest' are valid here too; instead of offsets, give a stream cut from the "
    "metadata table stream_cuts.",
    "subscribe": "The name of a table says it already: leave it out there.",
    "topic": "The name of a table says it already: leave it out there.",
    "kafka.bootstrap.servers": "The conf of a catalog says it already: leave it out with a table's name.",
    "groupidprefix": "A query keeps its position in its checkpoint: leave the option out.",
    "kafka.group.id": "A query keeps its position in its checkpoint: leave the option out.",
}
"""A remark on keys that have a counterpart."""


def find_replacement(key: str) -> str | None:
    """Return what to do instead of an option of another system without a counterpart here; None for any other key."""
    return _CLIENT if key.startswith("kafka.") and key not in OURS else _INSTEAD.get(key)


METADATA_TABLES = {
    "snapshots": "history",
    "metadata_log_entries": "history",
    "refs": "tags",
    "files": "segments",
    "all_files": "segments",
    "data_files": "segments",
    "all_data_files": "segments",
    "entries": "segments",
    "manifests": "segments",
    "partitions": "segments",
    "offsets": "stream_cuts",
    "consumer_groups": "consumers",
    "groups": "consumers",
}
"""Iceberg metadata tables, and Kafka terms, with the metadata table here that shows the same."""

_FILES = (
    "A stream has no files to rewrite: Pravega moves events to its long-term storage by itself. compact_changes "
    "shortens the stream of a table of changes, and compact_lake writes larger files of a table's lake."
)
_GROWS = "A stream only grows. Read the table as it was with VERSION AS OF, and INSERT those rows INTO another table."
PROCEDURES = {
    "expire_snapshots": "truncate_stream removes old events, and so do the table properties 'retention.type' and "
    "'retention.minimum'.",
    "rewrite_data_files": _FILES,
    "rewrite_position_delete_files": _FILES,
    "rewrite_manifests": "compact_history shortens the commit log.",
    "remove_orphan_files": _FILES,
    "rollback_to_snapshot": _GROWS,
    "rollback_to_timestamp": _GROWS,
    "set_current_snapshot": _GROWS,
    "cherrypick_snapshot": _GROWS,
    "create_changelog_view": "Changes are read with SELECT ... FROM table CHANGES FROM VERSION 1.",
    "register_table": "CREATE TABLE makes a table of a stream that exists already.",
    "fast_forward": "A stream has no branches; create_tag gives a version a name.",
    "migrate": "Use CREATE TABLE, and then INSERT INTO it SELECT ... FROM the other table.",
    "add_files": "Use INSERT INTO the table SELECT * FROM parquet.`path`.",
}
"""What to do instead of an Iceberg procedure."""
