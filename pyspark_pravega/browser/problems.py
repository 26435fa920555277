"""Turns an error into a sentence on a page, with the status that fits."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.errors import (
    AuthenticationError,
    InvalidNameError,
    PermissionDeniedError,
    PravegaError,
    ScopeNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamNotFoundError,
)

_STATUS: tuple[tuple[type[PravegaError], int], ...] = (
    (StreamNotFoundError, 404),
    (ScopeNotFoundError, 404),
    (InvalidNameError, 404),
    (PermissionDeniedError, 403),
    (AuthenticationError, 403),
    (ServerUnavailableError, 503),
    (ServerTimeoutError, 503),
)


@dataclass(frozen=True)
class Problem:
    """What a page says instead of what was asked for."""

    status: int
    condition: str
    sentence: str
    cure: str

    @classmethod
    def of(cls, error: PravegaError) -> Problem:
        """Describe an error. One that belongs to the table, such as a schema that is missing, is a page like others."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 200)
        return cls(status, error.condition, error.sentence, error.cure)
