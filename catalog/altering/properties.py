"""ALTER TABLE: properties, the comment, columns, and whether events have a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import DoubleType, FloatType, IntegralType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.tail import read_tail
from pyspark_pravega.client.stream import get_segment_epoch
from pyspark_pravega.datasource.kinds.opening import find_kind_with_format
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.open_lake import require_catalog
from pyspark_pravega.datasource.positions.snapshot import drop_empty, measure_segments
from pyspark_pravega.datasource.scan.dead_letter_stream import make_target_of_table
from pyspark_pravega.datasource.tables.bad_events import read_bad_event_rule
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.datasource.tables.named_columns import spell_columns
from pyspark_pravega.datasource.tables.stored_properties import SCHEMA_KEY, make_stored_properties
from pyspark_pravega.datasource.tables.stream_table import REGISTRY_CODECS, StreamTable
from pyspark_pravega.datasource.tables.table_settings import TableSettings, check_unused, read_table_settings
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import is_change_format, list_key_columns
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.formats.core.framing import CONFLUENT, read_encoding_ids
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import describe_refusal

from ..protocol import TableChange
from ..protocol.service_replies import TableDescription
from ..storage import table_properties
from ..storage.catalogs import Catalog
from ..storage.dropping import undo_on_failure
from ..storage.reporting import prefix_errors
from ..storage.spelling import Address
from ..tables.stream_tables import describe
from .column_changes import COLUMN_CHANGES, find_type
from .schema_edits import change_columns

_TAIL = 64 * 1024
"""Bytes at the end of each segment whose events are checked."""
_AUTO_CDC = "__spark_autocdc_metadata"
"""The column that AUTO CDC of Spark's pipelines adds to its tables."""
_STATEMENTS = {"ClusterBy": "CLUSTER BY", "AddConstraint": "ADD CONSTRAINT", "DropConstraint": "DROP CONSTRAINT"}


def alter(catalog: Catalog, address: Address, loaded: LoadedTable, changes: Sequence[TableChange]) -> TableDescription:
    """Change properties or columns of a stream's table as one unit; one Spark statement asks for only one of them.

    Raises UnsupportedOperationError for changes that streams cannot have, InvalidOptionError, and what
    `change_columns` raises.
    """
    stream, shown, about = loaded.table.stream, address.shown, address.about
    changes = [change for change in changes if not _is_asked_of_key(loaded, change)]
    if not changes:
        return describe(catalog, address, loaded)
    if all(change.kind in COLUMN_CHANGES for change in changes):
        with prefix_errors("Table", about, UnsupportedOperationError):
            if o.LAKE.key in loaded.stored and any(_is_unlike_files(loaded.table, change) for change in changes):
                raise UnsupportedOperationError(
                    "Files of the table's lake have its columns by their names, nulls where a column is new, and types "
                    "that Iceberg can widen. So columns are not renamed, get no default, and whole numbers do not "
                    "become FLOAT or DOUBLE. Add a column of that name or type."
                )
            change_columns(catalog, loaded, changes)
        return describe(catalog, address, load_table(catalog.pravega, stream))
    for change in changes:
        kind = change.kind
        if kind not in ("SetProperty", "RemoveProperty"):
            raise UnsupportedOperationError(describe_refusal(f"ALTER TABLE ... {_STATEMENTS.get(kind, kind)}", shown))
        if change.property in ("location", "collation"):
            clause = "SET LOCATION" if change.property == "location" else "DEFAULT COLLATION"
            raise UnsupportedOperationError(describe_refusal(f"ALTER TABLE ... {clause}", shown))
    with prefix_errors("Table", about):
        properties = _change_properties(catalog, table_properties.list_alterable_properties(loaded), changes)
        options = catalog.options(properties=properties)
        for option in (o.STREAMS, o.PATTERN_OF_STREAMS):
            if options.is_set(option):
                raise InvalidOptionError(
                    f"'{options.name(option)}' is a property of tables of several streams, and this is one stream. "
                    "CREATE TABLE with another name makes a table of several."
                )
        settings = read_table_settings(options)
        bad_events = read_bad_event_rule(options, stream)
        settings = _check(loaded, settings)
        _check_lake(catalog, loaded, settings, options.get(o.LAKE_PARTITION))
        if all(str(change.property).lower() != o.TAGS.key for change in changes):
            tagged = replace(settings.configuration, tags=loaded.configuration.tags)
            settings = replace(settings, configuration=tagged)
        if settings.framing != loaded.table.framing:
            check_framing(catalog.pravega, loaded.table, settings.framing)
        check_unused(settings.framing, options)
        if any(o.find_option(str(change.property)) is o.DEAD_LETTER for change in changes):
            make_target_of_table(catalog.pravega, bad_events)
        policy_asked = any(str(change.property).lower() == o.COMPATIBILITY.key for change in changes)
        _apply(catalog, loaded, settings, properties.get("comment"), policy_asked)
    return describe(catalog, address, load_table(catalog.pravega, stream))


def _is_asked_of_key(loaded: LoadedTable, change: TableChange) -> bool:
    """Return whether a run of AUTO CDC asks for a key that may be null, as in its query. The key stays NOT NULL."""
    if _AUTO_CDC not in loaded.table.schema.names or change.kind != "UpdateColumnNullability":
        return False
    return change.value == "true" and change.column in [(name,) for name in list_key_columns(loaded.table.settings)]


def _change_properties(
    catalog: Catalog, properties: Mapping[str, str], changes: Sequence[TableChange]
) -> dict[str, str]:
    keys = [str(change.property) for change in changes]
    declared = [key.lower() if (option := o.find_option(key)) is None else option.key for key in keys]
    new_texts = {key: change.value for key, change in zip(declared, changes, strict=True)}
    # Unknown keys and wrong values are refused first, so that messages do not name the old properties.
    catalog.options(properties={key: value or "" for key, value in new_texts.items() if value is not None})
    if new_texts.get(o.FORMAT.key, properties["format"]) != properties["format"]:
        raise InvalidOptionError("'format' is fixed when a table is created. Create another table.")
    new = dict(properties)
    for kind in ("scaling", "retention"):
        if f"{kind}.type" in new_texts and new_texts[f"{kind}.type"] != properties.get(f"{kind}.type"):
            # Another type has other limits, so those of the old one go.
            new = {key: text for key, text in new.items() if not key.startswith(f"{kind}.")}
            new |= {key: properties[key] for key in (o.SCALING_MIN_SEGMENTS.key,) if key in properties}
    new = {key: text for key, text in {**new, **new_texts}.items() if text is not None}
    if new.get(o.ROUTING_KEY.key) != properties.get(o.ROUTING_KEY.key) and o.ROUTING_KEY_OF_ALL.key not in new_texts:
        new.pop(o.ROUTING_KEY_OF_ALL.key, None)  # existing events have the other key, or none
    return new


def _check(loaded: LoadedTable, settings: TableSettings) -> TableSettings:
    segments, scaling = loaded.configuration.scaling.min_segments, settings.configuration.scaling
    if scaling.kind == "fixed" and scaling.min_segments != segments:
        raise InvalidOptionError(
            f"'scaling.min-segments' stays {segments} with 'scaling.type'='fixed'. Set 'scaling.type' to 'by-rate-kb' "
            "or 'by-rate-events' to let the stream scale."
        )
    settings = find_kind_with_format(settings.format).check_settings(loaded.table.schema, settings)
    return spell_columns(settings, loaded.table.schema)


def _is_unlike_files(table: StreamTable, change: TableChange) -> bool:
    if change.kind == "UpdateColumnType" and change.field is not None:
        is_floating = isinstance(change.field.fields[0].dataType, (FloatType, DoubleType))
        return is_floating and isinstance(find_type(table, change), IntegralType)
    return change.kind == "RenameColumn" or change.property == "default" or change.kind == "UpdateColumnDefaultValue"


def _check_lake(catalog: Catalog, loaded: LoadedTable, settings: TableSettings, unit: str) -> None:
    """Refuse to part a table from a lake with events that the stream lacks, and lakes with other partitions."""
    stream, former, name = loaded.table.stream, loaded.stored.get(o.LAKE.key), settings.scan_properties.get(o.LAKE.key)
    is_kept = name == former
    if former is None or (is_kept and unit == loaded.stored.get(o.LAKE_PARTITION.key, o.LAKE_PARTITION.default)):
        return
    confs = require_catalog(catalog.open_table(loaded.table), former)
    if name is not None and (lake := LakeTable.load(confs, name)) is not None:
        lake.check_origin(stream, unit)
    lake = None if is_kept else LakeTable.load(confs, former)
    if lake is None or lake.history is None or lake.history.cut.stream != stream:
        return
    head = catalog.pravega.controller.head(stream).positions
    if any(offset or get_segment_epoch(segment) for segment, offset in head.items()):
        raise UnsupportedOperationError(
            f"Events were removed from stream {stream}, and lake {former} may have them: without it, reads of the "
            "table would lack them. Make another table for what follows."
        )


def _apply(
    catalog: Catalog, loaded: LoadedTable, settings: TableSettings, comment: str | None, policy_asked: bool
) -> None:
    stream, old = loaded.table.stream, loaded.configuration
    kept = make_stored_properties(settings, comment)
    if "format" not in loaded.stored:
        del kept["format"]  # a stream that was never declared as a table may still become one of any format
    if SCHEMA_KEY in loaded.stored:
        kept[SCHEMA_KEY] = loaded.stored[SCHEMA_KEY]
    new = table_properties.make_stream_configuration(settings, kept)
    with undo_on_failure("ALTER TABLE") as undo:
        if loaded.group is not None and find_format(settings.format).registry_format is not None:
            registry = catalog.pravega.registry(stream.scope)
            policy, before = table_properties.get_policy(settings.compatibility), loaded.group.compatibility
            # An advanced policy has no name there, so it stays unless the statement sets another one.
            if policy != before if policy_asked else table_properties.name_policy(before) != settings.compatibility:
                registry.set_compatibility(stream.name, policy)
                undo.append(lambda: registry.set_compatibility(stream.name, before))
            if settings.codec not in ("none", loaded.table.codec):
                registry.add_codec(stream.name, REGISTRY_CODECS[settings.codec])
        if new != old:
            catalog.pravega.controller.update_stream(stream, new)


def check_framing(pravega: Pravega, table: StreamTable, framing: str) -> None:
    """Raise InvalidOptionError unless the newest events of each segment have this framing, or there are none.

    A writer without headers, such as a Java serializer that is configured like this, still registers its schema.
    """
    registered = find_format(table.format).registry_format is not None and CONFLUENT not in (framing, table.framing)
    if not registered or is_change_format(table.format) or table.schema_version is None:
        raise InvalidOptionError("'framing' is fixed when such a table is created. Create another table.")
    for piece in drop_empty(measure_segments(pravega, table.stream)):
        tail = read_tail(pravega.segments, table.stream, piece.segment_id, piece.start, piece.end, _TAIL)
        if tail is None or not len(tail.starts):
            continue
        ids, _ = read_encoding_ids(EventBuffer(tail.data, tail.starts, tail.lengths))
        if not ((ids >= 0) == (framing == "registry")).all():
            said = "have no header" if framing == "registry" else "have the header of the schema registry"
            raise InvalidOptionError(
                f"'framing'='{framing}' does not fit: the newest events of its stream {said}, so they could no longer "
                "be read. Leave it as it is, or create another table."
            )
