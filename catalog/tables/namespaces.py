"""Scopes as namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_pravega import errors
from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.consumers.consumer import list_foreign_groups
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import format_count, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_scope, is_internal, quote_all
from pyspark_pravega.sql.refusals import describe_refusal

from ..protocol import NamespaceChange
from ..storage.catalogs import Catalog
from ..storage.dropping import drop_stream, undo_on_failure
from ..storage.scope_table import TABLE_NAME as SCOPE_TABLE
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import check_scope_exists, resolve_scope, spell_for_pravega, spell_for_sql
from . import key_value_tables, merged_tables
from .key_value_tables import OWN
from .views import list_names

_PROPERTIES = "properties"
_SPARK_SETS = "owner"
_REFUSED = {"location": "LOCATION", "collation": "DEFAULT COLLATION"}
"""What Spark passes as properties, but a scope cannot have."""


def list_namespaces(catalog: Catalog) -> list[str]:
    """Return the scopes a user may see; Pravega's own, which begin with `_`, are hidden."""
    return spell_for_sql(catalog, catalog.pravega.controller.list_scopes())


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the tables of a scope; internal ones are hidden.

    They are its streams, with or without a schema, its key-value tables and its tables of several streams.
    """
    scope = resolve_scope(catalog, namespace)
    others = run_in_background(lambda: key_value_tables.list_names(catalog, scope))
    merged = run_in_background(lambda: merged_tables.list_names(catalog, scope))
    return spell_for_sql(catalog, {*catalog.pravega.controller.list_streams(scope), *others(), *merged()})


def find_default_namespace(catalog: Catalog) -> list[str]:
    """Return the namespace that `USE <catalog>` selects: that of the option `scope`, if it is set."""
    scope = catalog.options().get(o.SCOPE)
    return [] if scope is None else [scope]


def has_namespace(catalog: Catalog, namespace: Sequence[str]) -> bool:
    try:
        scope = resolve_scope(catalog, namespace)
    except errors.ScopeNotFoundError:
        return False
    # Pravega fails for an empty name, which CREATE NAMESPACE refuses later.
    return scope != "" and catalog.pravega.controller.scope_exists(scope)


def load_namespace(catalog: Catalog, namespace: Sequence[str]) -> dict[str, str]:
    """Return a namespace's properties, with the name of its scope in Pravega. Raises ScopeNotFoundError.

    A user who may not read the properties sees none.
    """
    scope = _find_scope(catalog, namespace)
    row = ScopeTable(catalog.pravega, scope).read_if_allowed(RowKind.NAMESPACE, "") or {}
    return {**row.get(_PROPERTIES, {}), "location": scope}


def _find_scope(catalog: Catalog, namespace: Sequence[str]) -> str:
    scope = resolve_scope(catalog, namespace)
    check_scope_exists(catalog, namespace, scope)
    return scope


def create_namespace(catalog: Catalog, namespace: Sequence[str], properties: Mapping[str, str]) -> None:
    """Create a scope with its properties, or nothing.

    Raises ScopeExistsError, InvalidNameError, UnsupportedOperationError for a location or a collation.
    """
    if len(namespace) > 1:
        raise errors.InvalidNameError(
            f"The namespace {quote_all(namespace)} has {len(namespace)} parts, but a namespace is one Pravega scope. "
            f"Use one name, for example `{'-'.join(namespace)}` (with the backticks)."
        )
    for name in namespace:
        check_new_scope(spell_for_pravega(catalog, name))
    scope = resolve_scope(catalog, namespace)
    for key, clause in _REFUSED.items():
        if key in properties:
            raise errors.UnsupportedOperationError(
                describe_refusal(f"CREATE NAMESPACE with {clause}", catalog.named(*namespace))
            )
    kept = {key: value for key, value in properties.items() if key != _SPARK_SETS}
    with undo_on_failure("CREATE NAMESPACE") as undo, cancellation.shield():
        catalog.pravega.controller.create_scope(scope)
        if kept:
            undo.append(lambda: _delete(catalog, scope, (SCOPE_TABLE,)))
            _change(catalog, scope, kept)


def alter_namespace(catalog: Catalog, namespace: Sequence[str], changes: Sequence[NamespaceChange]) -> None:
    """Set and unset properties of a namespace, all of them or none.

    Raises ScopeNotFoundError, UnsupportedOperationError for a location or a collation, PermissionDeniedError.
    """
    scope = _find_scope(catalog, namespace)
    if is_internal(scope):
        raise errors.UnsupportedOperationError(
            f"The scope {quote_all(namespace)} belongs to Pravega and cannot be changed."
        )
    for change in changes:
        if change.property in _REFUSED:
            statement = f"ALTER NAMESPACE ... SET {_REFUSED[change.property]}"
            raise errors.UnsupportedOperationError(describe_refusal(statement, catalog.named(*namespace)))
    properties = {change.property: change.value for change in changes}
    if properties.get("comment") == "":
        properties["comment"] = None  # Spark passes this for IS NULL too
    with cancellation.shield():
        _change(catalog, scope, properties)


def _change(catalog: Catalog, scope: str, properties: Mapping[str, str | None]) -> None:
    """Set properties of a scope, and remove those without a value."""

    def make_changed(row: Mapping[str, Any]) -> Mapping[str, Any]:
        old = row.get(_PROPERTIES, {})
        new = {key: value for key, value in {**old, **properties}.items() if value is not None}
        return row if new == old else {**row, _PROPERTIES: new}

    ScopeTable(catalog.pravega, scope).change(RowKind.NAMESPACE, "", make_changed)


def drop_namespace(catalog: Catalog, namespace: Sequence[str], cascade: bool) -> bool:
    """Drop a scope, with `cascade` all its streams, tables and schema groups.

    Raises ScopeNotEmptyError, and UnsupportedOperationError for one with reader groups of other clients.
    """
    scope = resolve_scope(catalog, namespace)
    controller = catalog.pravega.controller
    if is_internal(scope):
        raise errors.UnsupportedOperationError(
            f"The scope {quote_all(namespace)} belongs to Pravega and cannot be dropped."
        )
    streams = controller.list_streams(scope)
    visible = [name for name in streams if not is_internal(name)]
    tables = controller.list_key_value_tables(scope)
    others = [name for name in tables if name not in OWN]
    kept = SCOPE_TABLE in tables and not cascade
    views = list_names(catalog, scope) if kept else []
    merged = merged_tables.list_names(catalog, scope) if kept else []
    if not cascade and (visible or others or views or merged):
        raise errors.ScopeNotEmptyError(
            f"The scope {quote_all(namespace)} has {format_count(len(visible), 'stream')}, "
            f"{format_count(len(others), 'key-value table')}, {format_count(len(merged), 'table')} of several streams "
            f"and {format_count(len(views), 'view')}. Drop them first, or use DROP NAMESPACE ... CASCADE."
        )
    groups = list_foreign_groups(catalog.pravega, scope, streams)
    if groups:
        raise errors.UnsupportedOperationError(
            f"The scope {quote_all(namespace)} has reader groups of other clients: {shorten(', '.join(groups))}. Drop "
            "them first, with the program that made them or with Pravega's own tools."
        )
    for name in visible:
        cancellation.check()
        with cancellation.shield():
            drop_stream(catalog, Stream(scope, name))
    _delete_tables(catalog, scope, others)
    # The rows about tables go last, and stay if another program has made a table in the meantime.
    left = [name for name in controller.list_streams(scope) if not is_internal(name)]
    left += [name for name in controller.list_key_value_tables(scope) if name not in OWN]
    if left:
        raise errors.ScopeNotEmptyError(
            f"The scope {quote_all(namespace)} was emptied, but others have created {shorten(', '.join(left))} "
            "meanwhile. Drop it again if these may go too."
        )
    _delete(catalog, scope, OWN)
    return True


def _delete(catalog: Catalog, scope: str, tables: Sequence[str]) -> None:
    """Delete a scope whose streams are gone, with its key-value tables."""
    _delete_tables(catalog, scope, tables)
    catalog.pravega.controller.delete_scope(scope)


def _delete_tables(catalog: Catalog, scope: str, tables: Sequence[str]) -> None:
    for name in tables:
        try:
            catalog.pravega.controller.delete_key_value_table(scope, name)
        except errors.KeyValueTableNotFoundError:
            continue  # each of our own is made only when it is first needed
