"""Names in errors: what knows keys and columns only is told which table or catalog it was about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_pravega.errors import (
    IncompatibleSchemaError,
    InvalidNameError,
    InvalidOptionError,
    InvalidSchemaError,
    UnsupportedTypeError,
)


@contextmanager
def about(kind: str, name: str) -> Iterator[None]:
    """Let the message of an error begin with kind and name, as in "Table pravega.iot.sensor: ..."."""
    try:
        yield
    except (
        IncompatibleSchemaError,
        InvalidNameError,
        InvalidOptionError,
        InvalidSchemaError,
        UnsupportedTypeError,
    ) as error:
        raise type(error)(f"{kind} {name}: {error.message}") from None
