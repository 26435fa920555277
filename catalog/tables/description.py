"""What descriptions of tables share: columns, hidden ones, and what distinguishes a stream from a later one.

The name for OpenLineage is here too, by which its Spark agent knows what a query reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql.types import DataType, StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.config import parse_controller_uri
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.identity import identify
from pyspark_pravega.datasource.tables.hidden_columns import HIDDEN_COLUMNS, ORIGIN_COLUMNS, VERSION_COLUMNS
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidSchemaError
from pyspark_pravega.formats.core.spark_types import list_fields, make_nullable

from ..protocol.service_replies import HiddenColumn, TableDescription
from ..storage.catalogs import Catalog
from ..storage.spelling import name_table

_NAMESPACE = "openlineage.dataset.namespace"
_NAME = "openlineage.dataset.name"
"""The table properties in which the agent looks for a dataset."""


def name_dataset(catalog: Catalog, stream: Stream) -> dict[str, str]:
    """Return the properties that name a table in lineage: by its cluster, and by its place there.

    The name is the same in every session, whatever the catalog is called there, and with TLS as without. Of several
    controllers it is the first, as OpenLineage has it for Kafka's brokers.
    """
    controller = parse_controller_uri(catalog.pravega.config.controller_uri)[1][0]
    return {_NAMESPACE: f"pravega://{controller}", _NAME: str(stream)}


_HIDDEN = HIDDEN_COLUMNS | ORIGIN_COLUMNS | VERSION_COLUMNS


def describe_table(
    catalog: Catalog,
    table: StreamTable,
    id: str | None,
    *,
    columns: StructType | None = None,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> TableDescription:
    """Return what the adapter shows of a table and hands back when it is scanned or written.

    `columns` are the table's, unless a query gives others. To Spark none is NOT NULL if bad events are rows of nulls.
    """
    kind = find_table_kind(table)
    if columns is None:
        columns = make_nullable(table.schema) if table.asked.permissive else table.schema
    return TableDescription(
        name=name_table(catalog, table),
        schema=columns,
        properties=properties,
        lineage=name_dataset(catalog, table.stream),
        metadata_columns=_list_hidden_columns(kind, columns),
        table=table,
        id=id,
        events_are_rows=kind.events_are_rows,
        row_key=tuple(kind.row_key_of(table)),
        takes_updates=kind.takes_updates,
        writes_changes=kind.writes_changes,
    )


def _list_hidden_columns(kind: type[TableKind], columns: StructType) -> tuple[HiddenColumn, ...]:
    """Return the hidden columns of a table, without those whose names its own columns have."""
    names = {name.lower() for name in columns.fieldNames()}
    return tuple(
        HiddenColumn(field.name, field.dataType, field.nullable, comment)
        for field, comment in map(_HIDDEN.__getitem__, kind.hidden_columns)
        if field.name not in names
    )


def identify_members(catalog: Catalog, table: StreamTable) -> StreamTable:
    """Return a table of several streams whose members have their identities."""

    def add_identity(member: StreamTable) -> StreamTable:
        return replace(member, identity=identify(catalog.pravega, member.stream))

    return replace(table, members=tuple(cancellation.map_side_by_side(add_identity, table.members)))


def check_letter_case(table: str, schema: StructType) -> None:
    """Refuse what Spark would refuse in every query; but this message names both columns and the setting."""
    pair = _find_alike(schema, "")
    if pair is not None:
        raise InvalidSchemaError(
            f"Table {table} has the columns `{pair[0]}` and `{pair[1]}`, which differ in case only. Spark treats them "
            "as one unless the session distinguishes names by case: SET spark.sql.caseSensitive = true"
        )


def _find_alike(data_type: DataType, path: str) -> tuple[str, str] | None:
    """Return two fields of one struct, at any depth, whose names differ only in case."""
    names: dict[str, str] = {}
    for field in list_fields(data_type):
        first = names.setdefault(field.name.lower(), field.name)
        if first != field.name:
            return path + first, path + field.name
    parts = [(field.dataType, f"{path}{field.name}.") for field in list_fields(data_type)]
    return next((alike for part in parts if (alike := _find_alike(*part)) is not None), None)
