"""Lists the tables and views of a namespace, and suggests one for a name that does not exist."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.errors import PermissionDeniedError, PravegaError, ScopeNotFoundError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, quote_all

from ..metadata import system
from ..protocol.service_replies import Relations
from ..protocol.table_requests import Identifier
from ..storage.catalogs import Catalog
from ..storage.spelling import resolve_scope, spell_for_sql
from ..tables import namespaces, views

LOG = logging.getLogger(__name__)


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the tables of a scope, or those about the catalog. Raises ScopeNotFoundError."""
    of_catalog = system.list_tables(namespace)
    try:
        return sorted({*namespaces.list_tables(catalog, namespace), *of_catalog})
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


def suggest_table(catalog: Catalog, identifier: Identifier) -> str:
    """Return what to add to an error about a missing table or view; empty for one that exists."""
    namespace, name = identifier.namespace, identifier.name
    with suppress(PravegaError):  # such as a missing namespace, which the next error names
        if name in _list_views(catalog, namespace):
            return " It is a view, which Spark reads from 4.2 on."
    return _suggest(catalog, namespace, name, above=(catalog.name,))


def _suggest(catalog: Catalog, namespace: Sequence[str], name: str, above: Sequence[str] = ()) -> str:
    try:
        try:
            names = {*namespaces.list_tables(catalog, namespace), *_list_views(catalog, namespace)}
            near = None if name in names else find_nearest(name, names)
            return ask_did_you_mean(None if near is None else quote_all((*above, *namespace, near)))
        except ScopeNotFoundError:
            missing = quote_all(namespace)
            near = find_nearest(missing, namespaces.list_namespaces(catalog))
            if near is None:
                return f" There is no namespace {missing}." if name else ""
            suggestion = find_nearest(name, namespaces.list_tables(catalog, (near,)), least=0.8) if name else None
            meant = ask_did_you_mean(quote_all((*above, near) if suggestion is None else (*above, near, suggestion)))
            return f" There is no namespace {missing}.{meant}" if name else meant
    except PravegaError:
        return ""  # such as a missing right to list; the table is missing all the same


def _list_views(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    try:
        return views.list_views(catalog, namespace)
    except PermissionDeniedError:
        return []  # the user may not see them
