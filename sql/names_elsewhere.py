"""Names of options of other sources and sinks (Kafka, Pulsar, Delta, Iceberg), in lower case, with our names.

They are not accepted as our options, because their values differ (offsets, Kafka's JSON); the error names ours. Those
that are most like their counterpart here (`startingTimestamp`, `maxOffsetsPerTrigger`) need no entry: the nearest key
is suggested for any unknown one.
"""

from __future__ import annotations

OURS = {
    key: ours
    for ours, keys in {
        "start-stream-cut": "startingoffsets startingposition",
        "end-stream-cut": "endingoffsets",
        "controller-uri": "kafka.bootstrap.servers service.url admin.url",
        "stream": "subscribe topic",
        "streams": "topics",
        "pattern": "topicspattern",
        "consumer": "kafka.group.id groupidprefix subscriptionname predefinedsubscription",
        "start-timestamp": "startingtime stream-from-timestamp",
        "start-version": "start-snapshot-id",
        "end-version": "end-snapshot-id",
        "max-rows-per-trigger": "streaming-max-rows-per-micro-batch",
        "max-bytes-per-trigger": "streaming-max-files-per-micro-batch",
        "max-bytes-per-task": "split-size",
        "codec": "compression",
        "routing-key": "key partitionby",
    }.items()
    for key in keys.split()
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
    **dict.fromkeys(("path", "table"), BY_OPTIONS),
    **dict.fromkeys(("ignoredeletes", "ignorechanges", "skipchangecommits"), _NO_CHANGES),
    **dict.fromkeys(("streaming-skip-delete-snapshots", "streaming-skip-overwrite-snapshots"), _NO_CHANGES),
    **dict.fromkeys(("readchangefeed", "readchangedata"), _CHANGES),
    "maxrecordsperpartition": _SEGMENTS,
    "assign": "A query reads all segments: leave the option out. Conditions on the routing key read only those that "
    "may hold it, and _segment is a hidden column.",
    "startingoffsetsbytimestampstrategy": "Leave it out: a read begins with the first version that was published from "
    "its time on.",
    "includeheaders": "Events of Pravega have no headers: leave the option out.",
    **dict.fromkeys(("kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms"), _CLIENT),
    "snapshot-id": f"{_VERSIONS} 3.",
    "tag": f"{_VERSIONS} 'tag'.",
    "branch": f"A stream has no branches. {_VERSIONS} 'tag'.",
    "as-of-timestamp": f"{_VERSIONS} 3, or TIMESTAMP AS OF '2026-01-31 12:00:00'.",
}
"""Keys of others that have no counterpart here, with what to do instead."""

REMARKS = {
    "startingoffsets": "'earliest' and 'latest' are valid here too; instead of offsets, give a stream cut from the "
    "metadata table stream_cuts.",
    **dict.fromkeys(("subscribe", "topic"), "The name of a table says it already: leave it out there."),
    "kafka.bootstrap.servers": "The conf of a catalog says it already: leave it out with a table's name.",
    **dict.fromkeys(
        ("groupidprefix", "kafka.group.id"), "A query keeps its position in its checkpoint: leave the option out."
    ),
}
"""A remark on keys that have a counterpart."""


def find_replacement(key: str) -> str | None:
    """Return what to do instead of an option of another system without a counterpart here; None for any other key."""
    return _CLIENT if key.startswith("kafka.") and key not in OURS else _INSTEAD.get(key)


METADATA_TABLES = {
    name: ours
    for ours, names in {
        "history": "snapshots metadata_log_entries",
        "tags": "refs",
        "segments": "files all_files data_files all_data_files entries manifests partitions",
        "stream_cuts": "offsets",
        "consumers": "consumer_groups groups",
    }.items()
    for name in names.split()
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
    **dict.fromkeys(("rewrite_data_files", "rewrite_position_delete_files"), _FILES),
    "rewrite_manifests": "compact_history shortens the commit log.",
    "remove_orphan_files": "A stream leaves no unused files; remove_orphans removes those of a table's lake.",
    **dict.fromkeys(("rollback_to_snapshot", "rollback_to_timestamp"), _GROWS),
    **dict.fromkeys(("set_current_snapshot", "cherrypick_snapshot"), _GROWS),
    "create_changelog_view": "Changes are read with SELECT ... FROM table CHANGES FROM VERSION 1.",
    "register_table": "CREATE TABLE makes a table of a stream that exists already.",
    "fast_forward": "A stream has no branches; create_tag gives a version a name.",
    "migrate": "Use CREATE TABLE, and then INSERT INTO it SELECT ... FROM the other table.",
    "add_files": "Use INSERT INTO the table SELECT * FROM parquet.`path`.",
}
"""What to do instead of an Iceberg procedure."""
