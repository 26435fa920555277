"""Reports to users: adds to errors what they are about, and gives each warning once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from pyspark_pravega import errors

LOG = logging.getLogger(__name__)
READ_AGAIN = "If it is created again, start the query with a new checkpoint location."
WRITE_AGAIN = "Create the table again, and start the query or the statement again."
_ABOUT_NAMES: tuple[type[errors.PravegaError], ...] = (
    errors.DifferentSchemasError,
    errors.IncompatibleSchemaError,
    errors.InvalidNameError,
    errors.InvalidOptionError,
    errors.InvalidSchemaError,
    errors.MemberNotFoundError,
    errors.UnsupportedTypeError,
)
"""Errors whose sentences do not say what they are about."""


@contextmanager
def prefix_errors(kind: str, name: str, *others: type[errors.PravegaError]) -> Iterator[None]:
    """Begin the message of an error in the body with kind and name, as in "Table pravega.iot.sensor: ...".

    `others` are errors that name it themselves elsewhere, but not in the body.
    """
    try:
        yield
    except _ABOUT_NAMES + others as error:
        raise type(error)(f"{kind} {name}: {error.message}") from None


@contextmanager
def explain_dropped_streams(advice: str) -> Iterator[None]:
    """Make the error about a stream that was dropped since the table was loaded say so, and what to do."""
    try:
        yield
    except errors.StreamNotFoundError as error:
        if error.was_dropped:
            raise
        raise errors.StreamNotFoundError.dropped(f"{error.message} any more: it has been dropped. {advice}") from None


@lru_cache(1000)
def warn_once(text: str) -> None:
    """Log a warning, unless it was logged before in this process."""
    LOG.warning("%s", text)
