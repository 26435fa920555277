"""Scopes as namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log import TABLE_NAME
from pyspark_pravega.errors import (
    InvalidNameError,
    KeyValueTableNotFoundError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_scope, is_internal, quote_all
from pyspark_pravega.sql.refusals import refusal

from .connections import Catalog
from .dropping import drop_stream
from .spelling import as_in_pravega, listed, scope_named

_SPARK_SETS = frozenset(("owner",))


def list_namespaces(catalog: Catalog) -> list[str]:
    """Return the scopes a user may see; Pravega's own, which begin with `_`, are hidden."""
    return listed(catalog, catalog.pravega.controller.list_scopes())


def default_namespace(catalog: Catalog) -> list[str]:
    """Return the namespace that `USE <catalog>` selects: that of the option `scope`, else none."""
    scope = catalog.options().get(o.SCOPE)
    return [] if scope is None else [scope]


def load_namespace(catalog: Catalog, namespace: Sequence[str]) -> dict[str, str]:
    """Return a namespace's properties: the name of its scope in Pravega. Raises ScopeNotFoundError."""
    scope = scope_named(catalog, namespace)
    if not catalog.pravega.controller.scope_exists(scope):
        raise ScopeNotFoundError(f"There is no scope {quote_all(namespace)}.")
    return {"location": scope}


def create_namespace(catalog: Catalog, namespace: Sequence[str], properties: Mapping[str, str]) -> None:
    """Create a scope. Raises ScopeExistsError, InvalidNameError, UnsupportedOperationError for properties."""
    if len(namespace) > 1:
        raise InvalidNameError(
            f"The namespace {quote_all(namespace)} has {len(namespace)} parts, but a namespace is one Pravega scope. "
            f"Use one name, for example `{'-'.join(namespace)}` (with the backticks)."
        )
    for name in namespace:
        check_new_scope(as_in_pravega(catalog, name))
    scope = scope_named(catalog, namespace)
    if set(properties) - _SPARK_SETS:
        statement = "CREATE NAMESPACE with COMMENT, LOCATION or DBPROPERTIES"
        raise UnsupportedOperationError(refusal(statement, catalog.named(scope)))
    catalog.pravega.controller.create_scope(scope)


def drop_namespace(catalog: Catalog, namespace: Sequence[str], cascade: bool) -> bool:
    """Drop a scope, with `cascade` all its streams, tables and schema groups. Raises ScopeNotEmptyError."""
    scope = scope_named(catalog, namespace)
    controller = catalog.pravega.controller
    if is_internal(scope):
        raise UnsupportedOperationError(f"The scope {quote_all(namespace)} belongs to Pravega and is not dropped.")
    streams = controller.list_streams(scope)
    visible = [name for name in streams if not is_internal(name)]
    others = [name for name in controller.list_key_value_tables(scope) if name != TABLE_NAME]
    if not cascade and (visible or others):
        raise ScopeNotEmptyError(
            f"The scope {quote_all(namespace)} has {len(visible)} streams and {len(others)} key-value tables. Drop "
            "them first, or use DROP NAMESPACE ... CASCADE."
        )
    for name in visible:
        cancellation.check()
        with cancellation.shielded():
            drop_stream(catalog, Stream(scope, name))
    for name in (*others, TABLE_NAME):
        try:
            controller.delete_key_value_table(scope, name)
        except KeyValueTableNotFoundError:
            continue  # the commit log is made by the first INSERT
    controller.delete_scope(scope)
    return True


__all__ = [
    "create_namespace",
    "default_namespace",
    "drop_namespace",
    "list_namespaces",
    "load_namespace",
]
