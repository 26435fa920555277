"""Finds the scope of a namespace, and adds to errors which table or catalog they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark_pravega.errors import (
    DifferentSchemasError,
    IncompatibleSchemaError,
    InvalidNameError,
    InvalidOptionError,
    InvalidSchemaError,
    MemberNotFoundError,
    ScopeNotFoundError,
    StreamNotFoundError,
    UnsupportedTypeError,
)
from pyspark_pravega.sql.identifiers import MAX_SCOPE_NAME, quote_all

READ_AGAIN = "If it is created again, start the query with a new checkpoint location."
WRITE_AGAIN = "Create the table again, and start the query or the statement again."


@contextmanager
def prefix_errors(kind: str, name: str) -> Iterator[None]:
    """Begin the message of an error in the body with kind and name, as in "Table pravega.iot.sensor: ..."."""
    try:
        yield
    except (
        DifferentSchemasError,
        IncompatibleSchemaError,
        InvalidNameError,
        InvalidOptionError,
        InvalidSchemaError,
        MemberNotFoundError,
        UnsupportedTypeError,
    ) as error:
        raise type(error)(f"{kind} {name}: {error.message}") from None


@contextmanager
def explain_dropped_streams(advice: str) -> Iterator[None]:
    """Make the error about a stream that was dropped since the table was loaded say so, and what to do."""
    try:
        yield
    except StreamNotFoundError as error:
        if error.was_dropped:
            raise
        raise StreamNotFoundError.dropped(f"{error.message} any more: it was dropped meanwhile. {advice}") from None


def get_scope(namespace: Sequence[str], catalog: str) -> str:
    """Return the scope of a namespace.

    Raises ScopeNotFoundError for several parts and for a name too long to exist, InvalidNameError without any part.
    """
    if not namespace:
        raise InvalidNameError(
            f"No namespace is given and none is selected. Write {catalog}.<namespace>, or "
            f"{catalog}.<namespace>.<table> for a table; or select a namespace with USE {catalog}.<namespace>. A "
            "namespace is a Pravega scope."
        )
    if len(namespace) > 1:
        raise ScopeNotFoundError(f"There is no namespace {quote_all(namespace)}: a namespace is one Pravega scope.")
    if len(namespace[0]) > MAX_SCOPE_NAME:
        raise ScopeNotFoundError(
            f"There is no namespace `{namespace[0][:40]}...`: its name has {len(namespace[0]):,} characters, "
            f"that of a Pravega scope at most {MAX_SCOPE_NAME}."
        )
    return namespace[0]
