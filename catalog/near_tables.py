"""What a mistyped name of a table was meant to be: asked when a table is not there, and answered in the error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark_pravega.errors import PermissionDeniedError, PravegaError, ScopeNotFoundError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import did_you_mean, nearest, quote_all

from . import namespaces, tables, views
from .connections import Catalog
from .metadata.dispatch import belongs_to_stream


@contextmanager
def naming_near_tables(catalog: Catalog, namespace: Sequence[str], name: str = "") -> Iterator[None]:
    """Let errors of the body about a table or a namespace that is not there end with a name that is near."""
    try:
        yield
    except (StreamNotFoundError, ScopeNotFoundError) as error:
        hint = _hint(catalog, namespace, name)
        if not hint:
            raise
        raise type(error)(f"{error.message.rstrip('.')}.{hint}") from error


def hint_of_table(catalog: Catalog, namespace: Sequence[str], name: str) -> str:
    """Return what to put behind an error that a table or a view is not there; empty for one that is."""
    if belongs_to_stream(namespace):
        return ""  # such tables have errors of their own
    if _is_view(catalog, namespace, name):
        return " It is a view, which Spark reads from 4.2 on."
    return _hint(catalog, namespace, name, above=(catalog.name,))


def _hint(catalog: Catalog, namespace: Sequence[str], name: str, above: Sequence[str] = ()) -> str:
    try:
        try:
            known = {*tables.list_tables(catalog, namespace), *_views(catalog, namespace)}
            near = None if name in known else nearest(name, known)
            return did_you_mean(None if near is None else quote_all((*above, *namespace, near)))
        except ScopeNotFoundError:
            missing = quote_all(namespace)
            near = nearest(missing, namespaces.list_namespaces(catalog))
            if near is None:
                return f" There is no namespace {missing}." if name else ""
            found = nearest(name, tables.list_tables(catalog, (near,)), least=0.8) if name else None
            meant = did_you_mean(quote_all((*above, near) if found is None else (*above, near, found)))
            return f" There is no namespace {missing}.{meant}" if name else meant
    except PravegaError:
        return ""  # such as a missing right to list; the table is not there all the same


def _is_view(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    try:
        return name in _views(catalog, namespace)
    except PravegaError:
        return False  # such as a namespace that is not there, which is told next


def _views(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    try:
        return views.list_views(catalog, namespace)
    except PermissionDeniedError:
        return []  # to a user who may not know them
