"""Resolves a name in a query: to a table or a view, or to a suggestion of a similar name."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.errors import (
    InvalidSchemaError,
    PermissionDeniedError,
    PravegaError,
    ScopeNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, quote_all
from pyspark_pravega.sql.refusals import describe_view_refusal

from .. import protocol as r
from ..metadata import system
from ..metadata.tables_of_streams import is_stream_namespace
from ..protocol.replies import Relations, TableDescription, ViewDefinition
from ..storage.connections import Catalog
from ..storage.spelling import resolve_scope, spell_for_sql
from ..tables import namespaces, stream_tables, time_travel, views

LOG = logging.getLogger(__name__)


def load(catalog: Catalog, request: r.LoadTable) -> TableDescription | ViewDefinition:
    """Describe a table, or a view for a request that takes one; a view is looked up only if there is no table.

    Raises the errors of `stream_tables.load` and `time_travel.travel_to`, UnsupportedOperationError if a view is to be
    written, read as of a version, or read with options, InvalidSchemaError for columns that the session cannot
    distinguish.
    """
    namespace, name = request.namespace, request.name
    try:
        described = stream_tables.load(catalog, namespace, name, request.options, request.writing)
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
            raise UnsupportedOperationError(describe_view_refusal(refused, catalog.named(*namespace, name))) from None
        return view
    described = time_travel.travel_to(catalog, described, request.at)
    if not (request.case_sensitive or request.writing):
        _check_letter_case(catalog.named(*namespace, name), described.schema)
    return described


def _check_letter_case(table: str, schema: StructType) -> None:
    """Refuse what Spark would refuse in every query; but this message names both columns and the setting."""
    pair = _find_alike(schema, "")
    if pair is not None:
        raise InvalidSchemaError(
            f"Table {table} has the columns `{pair[0]}` and `{pair[1]}`, which differ in case only. Spark treats them "
            "as one unless the session distinguishes names by case: SET spark.sql.caseSensitive = true"
        )


def _find_alike(data_type: DataType, path: str) -> tuple[str, str] | None:
    """Return two fields of one struct, at any depth, whose names differ only in case."""
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
    return next((found for part in parts if (found := _find_alike(*part)) is not None), None)


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the tables of a scope, or those about the catalog. Raises ScopeNotFoundError."""
    of_catalog = system.list_tables(namespace)
    try:
        return sorted({*stream_tables.list_tables(catalog, namespace), *of_catalog})
    except ScopeNotFoundError:
        if not of_catalog:
            raise
        return list(of_catalog)


def list_relations(catalog: Catalog, namespace: Sequence[str]) -> Relations:
    """Return the tables and the views of a scope. Raises ScopeNotFoundError."""
    scope = resolve_scope(catalog, namespace)
    kept = run_in_background(lambda: views.list_names(catalog, scope))
    tables_there = list_tables(catalog, namespace)
    try:
        names = spell_for_sql(catalog, kept())
    except PermissionDeniedError as error:
        LOG.debug("The views of scope %s are left out: %s", scope, error)
        names = []
    taken = set(tables_there)
    return Relations(tuple(tables_there), tuple(name for name in names if name not in taken))


@contextmanager
def suggest_near_tables(catalog: Catalog, namespace: Sequence[str], name: str = "") -> Iterator[None]:
    """Add a similar name to errors of the body about a missing table or namespace."""
    try:
        yield
    except (StreamNotFoundError, ScopeNotFoundError) as error:
        hint = _suggest(catalog, namespace, name)
        if not hint:
            raise
        raise type(error)(f"{error.message.rstrip('.')}.{hint}") from error


def suggest_table(catalog: Catalog, namespace: Sequence[str], name: str) -> str:
    """Return what to add to an error about a missing table or view; empty for one that exists."""
    if is_stream_namespace(namespace):
        return ""  # such tables have their own errors
    if _is_view(catalog, namespace, name):
        return " It is a view, which Spark reads from 4.2 on."
    return _suggest(catalog, namespace, name, above=(catalog.name,))


def _suggest(catalog: Catalog, namespace: Sequence[str], name: str, above: Sequence[str] = ()) -> str:
    try:
        try:
            known = {*stream_tables.list_tables(catalog, namespace), *_list_views(catalog, namespace)}
            near = None if name in known else find_nearest(name, known)
            return ask_did_you_mean(None if near is None else quote_all((*above, *namespace, near)))
        except ScopeNotFoundError:
            missing = quote_all(namespace)
            near = find_nearest(missing, namespaces.list_namespaces(catalog))
            if near is None:
                return f" There is no namespace {missing}." if name else ""
            found = find_nearest(name, stream_tables.list_tables(catalog, (near,)), least=0.8) if name else None
            meant = ask_did_you_mean(quote_all((*above, near) if found is None else (*above, near, found)))
            return f" There is no namespace {missing}.{meant}" if name else meant
    except PravegaError:
        return ""  # such as a missing right to list; the table is missing all the same


def _is_view(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    try:
        return name in _list_views(catalog, namespace)
    except PravegaError:
        return False  # such as a missing namespace, which the next error names


def _list_views(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    try:
        return views.list_views(catalog, namespace)
    except PermissionDeniedError:
        return []  # the user may not see them
