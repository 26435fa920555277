"""Reports to users: adds to errors what they are about, and gives each warning once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from pyspark_pravega.errors import (
    DifferentSchemasError,
    IncompatibleSchemaError,
    InvalidNameError,
    InvalidOptionError,
    InvalidSchemaError,
    MemberNotFoundError,
    StreamNotFoundError,
    UnsupportedTypeError,
)

LOG = logging.getLogger(__name__)
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
        raise StreamNotFoundError.dropped(f"{error.message} any more: it has been dropped. {advice}") from None


@lru_cache(1000)
def warn_once(text: str) -> None:
    """Log a warning, unless it was logged before in this process."""
    LOG.warning("%s", text)
