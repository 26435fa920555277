"""CREATE TABLE of several streams that exist: keeps what names them. No stream is made."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import shield
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import (
    InvalidOptionError,
    ScopeNotFoundError,
    StreamExistsError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream, quote_all

from ..protocol import CreateTable
from ..protocol.replies import TableDescription
from ..storage.connections import Catalog
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import Address
from ..tables import key_value_tables
from ..tables.merged_tables import check_properties, describe, load_streams, make_row

_SPARK_SETS = ("provider", "comment", "owner", "external", "location", "is_managed_location", "table_type", "collation")


def is_merged(properties: Mapping[str, str]) -> bool:
    """Return whether the properties of CREATE TABLE are those of a table of several streams."""
    return any(o.find_option(key) in (o.STREAMS, o.PATTERN_OF_STREAMS) for key in properties)


def create_merged(catalog: Catalog, address: Address, request: CreateTable) -> TableDescription:
    """Create a table of several streams. Columns that are given must be those that it has.

    Raises StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedOperationError for
    constraints and defaults, and the errors of `load_streams`.
    """
    stream, shown = address.stream, address.shown
    check_new_stream(stream.name)
    for clause in (
        *(constraint.text for constraint in request.constraints),
        *(f"DEFAULT of {name}" for name in request.defaults),
    ):
        raise UnsupportedOperationError(
            f"{clause} is not possible on {shown}: nothing is written to several streams. Leave it out."
        )
    given = {key: text for key, text in request.properties.items() if key.lower() not in _SPARK_SETS}
    properties = check_properties(catalog, given, stream.scope)
    if not catalog.pravega.controller.scope_exists(stream.scope):
        raise ScopeNotFoundError(f"There is no scope {quote_all(request.namespace)}.")
    if catalog.pravega.controller.stream_exists(stream) or key_value_tables.exists(catalog, stream):
        raise StreamExistsError(f"There is a stream or a key-value table {stream}. Give the table another name.")
    table = load_streams(catalog, stream, properties)
    _check_columns(table, request.schema)
    row = {"id": uuid.uuid4().hex, **make_row(table, properties, request.properties.get("comment"))}

    def made(before: Mapping[str, Any]) -> Mapping[str, Any]:
        if before and before["id"] != row["id"]:
            raise StreamExistsError(f"There is a table {shown} of several streams.")
        return row

    with shield():
        ScopeTable(catalog.pravega, stream.scope).change(RowKind.SEVERAL_STREAMS, stream.name, made)
    return describe(catalog, address, table, {**row, "name": stream.name})


def _check_columns(table: StreamTable, given: StructType) -> None:
    """Raise InvalidOptionError if a statement declares other columns than the streams have."""
    wanted = [(field.name, field.dataType.simpleString()) for field in given]
    there = [(field.name, field.dataType.simpleString()) for field in table.schema]
    if wanted in ([], there):
        return
    known = dict(there)
    for name, type in wanted:
        if known.get(name) != type:
            has = f"there it is {known[name]}" if name in known else "they have no such column"
            raise InvalidOptionError(
                f"It declares the column {name} {type}, but its columns are those of its streams, and {has}. Declare "
                f"no columns, or all of these: {_list(there)}."
            )
    raise InvalidOptionError(
        f"It declares the columns {_list(wanted)}, but those of its streams are {_list(there)}. Declare no columns, or "
        "all of these in this order."
    )


def _list(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns)
