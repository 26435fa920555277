"""What a mistyped name of a table was meant to be: asked when a table is not there, and answered in the error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark_pravega.errors import PravegaError, ScopeNotFoundError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.near_names import did_you_mean, nearest

from . import namespaces, tables
from .connections import Catalog


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


def _hint(catalog: Catalog, namespace: Sequence[str], name: str) -> str:
    try:
        try:
            near = nearest(name, tables.list_tables(catalog, namespace))
            return did_you_mean(None if near is None else quote_all((*namespace, near)))
        except ScopeNotFoundError:
            missing = quote_all(namespace)
            near = nearest(missing, namespaces.list_namespaces(catalog))
            if near is None:
                return f" There is no namespace {missing}." if name else ""
            found = nearest(name, tables.list_tables(catalog, (near,)), least=0.8) if name else None
            meant = did_you_mean(quote_all((near,) if found is None else (near, found)))
            return f" There is no namespace {missing}.{meant}" if name else meant
    except PravegaError:
        return ""  # such as a missing right to list; the table is not there all the same
