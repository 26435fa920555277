"""What a name in a query means: a table, or a view where there is no table."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.client.cancellation import begun
from pyspark_pravega.errors import (
    InvalidSchemaError,
    PermissionDeniedError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql.refusals import refusal

from . import requests as r
from . import tables, time_travel, views
from .connections import Catalog
from .replies import Relations, TableDescription, ViewDefinition
from .spelling import listed, scope_named

LOG = logging.getLogger(__name__)


def load(catalog: Catalog, request: r.LoadTable) -> TableDescription | ViewDefinition:
    """Describe a table, or a view for a request that takes one; views are looked for only where there is no table.

    Raises the errors of `tables.load` and `time_travel.at`, UnsupportedOperationError for a view that is to be
    written, read as it was, or read with options, InvalidSchemaError for columns that the session cannot tell apart.
    """
    namespace, name = request.namespace, request.name
    try:
        described = tables.load(catalog, namespace, name, request.options, request.writing)
    except (StreamNotFoundError, PermissionDeniedError):
        refused = None
        if request.writing:
            refused = "Writing"
        elif request.at is not None:
            refused = "VERSION AS OF"
        elif request.options:
            refused = f"WITH ('{next(iter(request.options))}'=...)"
        view = views.find(catalog, namespace, name) if request.or_view or refused is not None else None
        if view is None:
            raise
        if refused is not None:
            raise UnsupportedOperationError(refusal(refused, catalog.named(*namespace, name))) from None
        return view
    described = time_travel.at(catalog, described, request.at)
    if not (request.case_sensitive or request.writing):
        _check_letter_case(catalog.named(*namespace, name), described.schema)
    return described


def _check_letter_case(table: str, schema: StructType) -> None:
    """Refuse what Spark would refuse for every query, with words that name neither both columns nor the setting."""
    pair = _alike(schema, "")
    if pair is not None:
        raise InvalidSchemaError(
            f"Table {table} has the columns `{pair[0]}` and `{pair[1]}`, which differ in case only. Spark takes them "
            "for one unless its session tells names by their case: SET spark.sql.caseSensitive = true"
        )


def _alike(data_type: DataType, path: str) -> tuple[str, str] | None:
    """Return two fields of one struct, however deep, whose names differ in case only."""
    if isinstance(data_type, StructType):
        names: dict[str, str] = {}
        for field in data_type:
            first = names.setdefault(field.name.lower(), field.name)
            if first != field.name:
                return path + first, path + field.name
        parts = [(field.dataType, f"{path}{field.name}.") for field in data_type]
    elif isinstance(data_type, ArrayType):
        parts = [(data_type.elementType, f"{path}element.")]
    elif isinstance(data_type, MapType):
        parts = [(data_type.keyType, f"{path}key."), (data_type.valueType, f"{path}value.")]
    else:
        return None
    return next((found for part in parts if (found := _alike(*part)) is not None), None)


def list_relations(catalog: Catalog, namespace: Sequence[str]) -> Relations:
    """Return the tables and the views of a scope. Raises ScopeNotFoundError."""
    scope = scope_named(catalog, namespace)
    kept = begun(lambda: views.names_in(catalog, scope))
    tables_there = tables.list_tables(catalog, namespace)
    try:
        names = listed(catalog, kept())
    except PermissionDeniedError as error:
        LOG.debug("The views of scope %s are left out: %s", scope, error)
        names = []
    taken = set(tables_there)
    return Relations(tuple(tables_there), tuple(name for name in names if name not in taken))
