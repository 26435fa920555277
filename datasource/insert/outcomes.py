"""Makes the errors of commits that failed or whose outcome is unknown, and cleans up after them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from enum import Enum

from pyspark_pravega import errors
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream

LOG = logging.getLogger(__name__)

CLEAN_UP_SECONDS = 5.0
"""How long cleaning up is tried: the outcome is known already, or was waited for long enough."""

NO_ANSWER = (errors.ServerUnavailableError, errors.ServerTimeoutError)
"""Errors that leave open what another process has done with a transaction."""
AWAY = (errors.ServerFailedError, *NO_ANSWER)
"""Errors of servers that a task needs."""


class Unit(Enum):
    """The unit of work that one transaction holds."""

    INSERT = "INSERT"
    STATEMENT = "statement"
    MICRO_BATCH = "micro-batch"
    PART_OF_INSERT = "INSERT in this stream"
    PART_OF_MICRO_BATCH = "micro-batch in this stream"

    @property
    def nothing_visible(self) -> str:
        """Say that none of its rows is visible."""
        return f"No row of this {self.value} is visible"

    @property
    def next_step(self) -> str:
        """Say how to write its rows after all."""
        if self in (Unit.INSERT, Unit.STATEMENT):
            return "run it again"
        if self is Unit.PART_OF_INSERT:
            return "write the rows for this stream again"
        return "start the query again, and it continues from its checkpoint"

    @property
    def write_again(self) -> str:
        """Say that none of its rows is visible, and how to write them after all."""
        return f"{self.nothing_visible}; {self.next_step}"

    def make_ended_error(self, why: errors.PravegaError) -> errors.TransactionNotOpenError:
        """Make the error for a transaction that has ended without its rows."""
        return errors.TransactionNotOpenError(f"{why.message}. {self.next_step.capitalize()}.")


def clean_up(step: Callable[[], None]) -> None:
    """Clean up as far as possible. A transaction that cannot be ended now ends with its lease."""
    try:
        with limit_retries(CLEAN_UP_SECONDS):
            step()
    except errors.PravegaError as error:
        LOG.warning("Cleaning up after an INSERT: %s", error)


def make_sealed_error(stream: Stream) -> errors.StreamSealedError:
    """Make the error for a stream that has no segments to write to."""
    return errors.StreamSealedError(f"stream '{stream}' is sealed; nothing can be written to it. Write to another one")


def make_outcome_unknown_error(
    stream: Stream, transaction: uuid.UUID, error: errors.PravegaError
) -> errors.TransactionOutcomeUnknownError:
    """Make the error for servers that do not say whether an earlier process has committed a transaction."""
    unknown = errors.TransactionOutcomeUnknownError(
        f"The catalog service ended while it committed transaction {transaction} to stream {stream}, and the outcome "
        f"is unknown: {error.message}. Either all rows of this INSERT are visible, or none: look at the table before "
        "you run it again."
    )
    unknown.__cause__ = error
    return unknown
