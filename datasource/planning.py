"""From a table, the columns Spark needs and the read options to a scan: what both front doors share."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Access
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.current_rows_planning import plan_current_rows, prepared_changes
from pyspark_pravega.datasource.insert_commit import WriteSettings
from pyspark_pravega.datasource.scan import METADATA_COLUMNS, ScanPlan, SegmentScanReader, SlicePartition
from pyspark_pravega.datasource.snapshot import take_snapshot
from pyspark_pravega.datasource.stream_table import StreamTable, WriterSchemas
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.formats.schema.arrow import strings_for_char_types
from pyspark_pravega.sql import options as o

_OPEN_ENDS = ("earliest", "latest", "unbounded")


@dataclass(frozen=True)
class PlannedScan:
    """A planned scan: its reader, the schema of its rows, and how many bytes it will read."""

    reader: DataSourceReader
    schema: StructType
    bytes: int
    segments: int


def plan_scan(
    pravega: Pravega,
    table: StreamTable,
    required: StructType,
    options: o.Options,
    *,
    limit: int | None = None,
) -> PlannedScan:
    """Fix what the scan reads, now.

    `required` are the columns Spark needs, metadata columns among them, nested ones pruned. Raises
    InvalidOptionError for stream cuts that do not fit, InvalidSchemaError for columns that the table does not have,
    DataLossError, StreamNotFoundError, PermissionDeniedError.
    """
    stream = table.stream
    fail_on_data_loss = options.get(o.FAIL_ON_DATA_LOSS)
    if table.of_changes or table.changelog:
        table = prepared_changes(table, options)
    slices = take_snapshot(
        pravega,
        stream,
        start=_cut(options, o.START_STREAM_CUT, "latest"),
        end=_cut(options, o.END_STREAM_CUT, "earliest"),
        fail_on_data_loss=fail_on_data_loss,
        settled=CommitLog(pravega, stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds()).settled,
    )
    required = _strings(required)
    names = set(table.schema.fieldNames())
    columns = [field for field in required.fields if field.name in names]
    unknown = [name for name in required.fieldNames() if name not in names and name not in METADATA_COLUMNS]
    if unknown:
        known = ", ".join(table.schema.fieldNames())
        raise InvalidSchemaError(f"Stream {stream} has no column {', '.join(unknown)}. Its columns are {known}.")
    schema = required
    if not required.fields:
        schema = _strings(StructType([table.schema.fields[0]]))  # the carrier of the row count
    if table.of_changes:
        output = _nullable(schema) if not required.fields else schema
        rows = plan_current_rows(pravega, table, slices, output, StructType(columns), options, limit=limit)
        return PlannedScan(rows, output, sum(piece.end - piece.start for piece in slices), len(slices))
    plan = ScanPlan(
        table=table,
        config=pravega.config,
        schema=_nullable(schema) if not required.fields else schema,
        columns=StructType(columns),
        limit=limit,
        fail_on_data_loss=fail_on_data_loss,
        window_bytes=options.get(o.READ_WINDOW),
        writer_schemas=WriterSchemas(pravega.config, stream),
    )
    token = pravega.segments.token(stream, Access.READ)
    partitions = [
        SlicePartition(piece, pravega.controller.segment_location(stream, piece.segment_id), token) for piece in slices
    ]
    return PlannedScan(
        SegmentScanReader(plan, partitions),
        plan.schema,
        sum(piece.end - piece.start for piece in slices),
        len(slices),
    )


def full_schema(table: StreamTable) -> StructType:
    """Return a table's columns followed by its metadata columns, for readers without hidden columns."""
    names = {name.lower() for name in table.schema.fieldNames()}
    hidden = [field for name, (field, _) in METADATA_COLUMNS.items() if name not in names]
    return _strings(StructType([*table.schema.fields, *hidden]))


def write_settings(options: o.Options) -> WriteSettings:
    """Read how to write from resolved options."""
    return WriteSettings(
        lease=options.get(o.TRANSACTION_LEASE).total_seconds(),
        commit_timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds(),
        spool_memory=options.get(o.SPOOL_MEMORY),
    )


def _cut(options: o.Options, option: o.Option[str], nonsense: str) -> StreamCut | None:
    text = options.get(option)
    if text == nonsense:
        raise InvalidOptionError(f"'{option.key}'='{text}' leaves nothing to read. Leave the option out.")
    if text in _OPEN_ENDS:
        return None
    try:
        return StreamCut.from_text(text)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"'{option.key}': {error.message}.") from None


def _strings(schema: StructType) -> StructType:
    """Read char(n) and varchar(n) as the strings they are to Arrow; the catalog's tables pad and check them."""
    strings = strings_for_char_types(schema)
    assert isinstance(strings, StructType)
    return strings


def _nullable(schema: StructType) -> StructType:
    schema = StructType.fromJson(schema.jsonValue())
    for field in schema.fields:
        field.nullable = True
    return schema
