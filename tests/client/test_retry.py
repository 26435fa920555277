"""Retries: what is tried again, and for how long."""

from __future__ import annotations

import pytest

from pyspark_pravega.client.retry import LONGEST_PAUSE, count_repeats, limit_retries, retry
from pyspark_pravega.errors import (
    AuthenticationError,
    DataLossError,
    PermissionDeniedError,
    PravegaError,
    ProtocolError,
    ServerTimeoutError,
    ServerUnavailableError,
    TlsError,
)


class Operation:
    """Fails with the given errors, one after the other, and then succeeds; notes the time it is given."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.seconds_left: list[float] = []

    def __call__(self, seconds_left: float) -> str:
        self.seconds_left.append(seconds_left)
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def test_failures_that_pass_are_tried_again() -> None:
    operation = Operation(ServerUnavailableError("a"), ServerUnavailableError("b"))
    assert retry(operation, timeout=30.0) == "done"
    assert len(operation.seconds_left) == 3
    assert operation.seconds_left == sorted(operation.seconds_left, reverse=True)
    assert operation.seconds_left[0] <= 30.0


def test_repeats_are_counted_where_that_is_asked_for() -> None:
    with count_repeats() as outer:
        retry(Operation(ServerUnavailableError("a")), timeout=30.0)
        with count_repeats() as repeats:
            assert retry(Operation(), timeout=30.0) == "done" and repeats == [0]
            retry(Operation(ServerUnavailableError("a"), ServerUnavailableError("b")), timeout=30.0)
        assert repeats == [2]
    retry(Operation(ServerUnavailableError("a")), timeout=30.0)
    assert outer == [1]


@pytest.mark.parametrize(
    "kind", [AuthenticationError, PermissionDeniedError, TlsError, ProtocolError, ServerTimeoutError]
)
def test_other_failures_are_final(kind: type[PravegaError]) -> None:
    operation = Operation(kind("once"))
    with pytest.raises(kind) as caught:
        retry(operation, timeout=30.0)
    assert caught.value.message == "once"
    assert len(operation.seconds_left) == 1


def test_the_time_is_bounded_and_the_last_error_is_told() -> None:
    operation = Operation(*[ServerUnavailableError(f"try {number}") for number in range(10_000)])
    with pytest.raises(ServerUnavailableError, match=r"try \d+ \(gave up after \d+ tries in 0.3 s\)") as caught:
        retry(operation, timeout=0.3)
    assert isinstance(caught.value.__cause__, ServerUnavailableError)
    assert all(0 < seconds <= 0.3 for seconds in operation.seconds_left)


def test_pauses_grow_up_to_a_limit() -> None:
    pauses: list[float] = []
    retry(Operation(*[ServerUnavailableError("down")] * 200), timeout=1e6, sleep=pauses.append)
    assert len(pauses) == 200
    assert max(pauses) <= LONGEST_PAUSE
    assert max(pauses[:3]) < max(pauses)


def test_what_may_pass_can_be_chosen() -> None:
    assert retry(Operation(DataLossError("x")), timeout=5.0, transient=(DataLossError, TlsError)) == "done"
    assert retry(Operation(DataLossError("x")), timeout=5.0, transient=lambda error: "x" in str(error)) == "done"
    with pytest.raises(DataLossError):
        retry(Operation(DataLossError("y")), timeout=5.0, transient=lambda error: "x" in str(error))


def test_errors_of_others_pass_through() -> None:
    with pytest.raises(KeyError):
        retry(Operation(KeyError("bug")), timeout=5.0)
    with pytest.raises(OSError, match="still"):
        retry(Operation(*[OSError("still")] * 10_000), timeout=0.2, transient=OSError)


def test_retries_inside_of_others_end_with_them() -> None:
    """A request finds out where to send it, for which there are retries of their own."""
    inner = Operation(*[ServerUnavailableError("again")] * 10_000)
    with pytest.raises(ServerUnavailableError, match=r"^\S+ again \(gave up after \d+ tries in 0.3 s\)$"):
        retry(lambda _: retry(inner, timeout=3600.0), timeout=0.3)
    assert all(0 < seconds <= 0.3 for seconds in inner.seconds_left)


def test_retries_of_a_block_that_has_a_time_of_its_own() -> None:
    operation = Operation(*[ServerUnavailableError("again")] * 10_000)
    with limit_retries(0.5), pytest.raises(ServerUnavailableError, match=r"tries in 0\.\d+ s"):
        retry(operation, timeout=3600.0)
    operation = Operation()
    assert retry(operation, timeout=30.0) == "done"
    assert operation.seconds_left[0] > 1
