"""Transactions against a real controller. What they carry is tested with the appender."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import (
    ScalingPolicy,
    Stream,
    StreamConfiguration,
    get_segment_epoch,
    get_segment_number,
    get_transaction_epoch,
)
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import (
    InvalidOptionError,
    ServerUnavailableError,
    TransactionNotOpenError,
    TransactionOutcomeUnknownError,
)
from tests.cutting_proxy import CuttingProxy

SHORTEST_LEASE = 10_000


@pytest.fixture(scope="module")
def controller(client_config: ClientConfig) -> Iterator[Controller]:
    with Controller(client_config) as connected:
        yield connected


@pytest.fixture
def stream(controller: Controller, scope: str) -> Stream:
    made = Stream(scope, "stream")
    controller.create_stream(made, StreamConfiguration(ScalingPolicy(min_segments=2)))
    return made


@pytest.fixture
def transaction(controller: Controller, stream: Stream) -> Iterator[Transaction]:
    begun = Transaction.begin(controller, stream, SHORTEST_LEASE)
    yield begun
    begun.stop()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Leases end by the clock, so there is nothing to do but to look again and again."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_commit(transaction: Transaction) -> None:
    assert transaction.status() is TransactionStatus.OPEN
    assert [segment.segment_id for segment in transaction.segments] == [0, 1]
    transaction.keep_alive()
    transaction.commit()
    assert transaction.status() is TransactionStatus.COMMITTED
    assert transaction.failure is None


@pytest.mark.parametrize("told", ["merged", "nothing", "error"])
def test_a_look_at_the_segments_is_only_a_hint(
    controller: Controller, pravega: Pravega, transaction: Transaction, told: str
) -> None:
    """The commit is done when the controller says so, whatever a segment store tells, and knows before."""
    segments = [segment.segment_id for segment in transaction.segments]
    still_there: list[int] = []

    def merged() -> bool:
        if told == "error":
            raise ServerUnavailableError("nobody answers")
        still_there.append(len(pravega.segments.segment_infos(transaction.stream, segments, transaction.id)))
        return told == "merged" and not still_there[-1]

    transaction.commit(merged=merged)
    assert controller.transaction_status(transaction.stream, transaction.id) is TransactionStatus.COMMITTED
    if told == "merged":
        assert still_there[-1] == 0 and 0 not in still_there[:-1]


def test_the_first_sign_of_life_may_be_lost(
    controller: Controller, stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Event()

    def lost(*_: object) -> None:
        tried.set()
        raise ServerUnavailableError("the answer was lost")

    with monkeypatch.context() as patched, caplog.at_level(logging.DEBUG):
        patched.setattr(controller, "ping_transaction", lost)
        begun = Transaction.begin(controller, stream, SHORTEST_LEASE)
        assert tried.wait(10)
        wait_until(lambda: "keeps its first lease" in caplog.text, "not logged")
    begun.commit()
    begun.stop()
    assert begun.status() is TransactionStatus.COMMITTED


def test_commit_again_is_harmless_and_abort_is_too_late(controller: Controller, transaction: Transaction) -> None:
    transaction.commit()
    transaction.commit()
    with pytest.raises(TransactionNotOpenError, match="cannot be aborted: it is committed"):
        transaction.abort()
    with pytest.raises(TransactionNotOpenError, match="no longer open \\(committed\\)"):
        controller.ping_transaction(transaction.stream, transaction.id, SHORTEST_LEASE)


def test_abort_again_is_harmless_and_commit_is_too_late(controller: Controller, transaction: Transaction) -> None:
    transaction.abort()
    transaction.abort()
    wait_until(lambda: transaction.status() is TransactionStatus.ABORTED, "never aborted")
    transaction.abort()
    with pytest.raises(TransactionNotOpenError, match="cannot be committed: it is aborted"):
        transaction.commit()
    with pytest.raises(TransactionNotOpenError, match="no longer open \\(aborted\\)"):
        controller.ping_transaction(transaction.stream, transaction.id, SHORTEST_LEASE)


def test_what_has_become_of_it(controller: Controller, stream: Stream) -> None:
    """Each end is told for what it is."""
    open_one, committed, aborted = (Transaction.begin(controller, stream, SHORTEST_LEASE) for _ in range(3))
    committed.commit(60)
    aborted.abort()
    never = Transaction(controller, stream, uuid.uuid4(), [], SHORTEST_LEASE)
    for transaction, expected in (
        (open_one, "is sealed, because it is about to be committed"),
        (committed, "is already committed"),
        (
            aborted,
            "was aborted: by a client, or by the server because .* during the lease of 10 s. No event of it is visible",
        ),
        (never, "is not known to the server"),
    ):
        with pytest.raises(TransactionNotOpenError, match=f"{transaction.id} on stream '{stream}' {expected}"):
            raise transaction.explain_end()
    open_one.abort()


def test_a_transaction_that_never_was(controller: Controller, stream: Stream) -> None:
    unknown = uuid.uuid4()
    assert controller.transaction_status(stream, unknown) is TransactionStatus.UNKNOWN
    for call in (controller.commit_transaction, controller.abort_transaction):
        with pytest.raises(TransactionNotOpenError, match="it is unknown"):
            call(stream, unknown)
    with pytest.raises(TransactionNotOpenError, match="no longer open \\(unknown\\)"):
        controller.ping_transaction(stream, unknown, SHORTEST_LEASE)
    Transaction(controller, stream, unknown, [], SHORTEST_LEASE).abort()


def test_whoever_knows_the_id_can_decide(controller: Controller, transaction: Transaction) -> None:
    rejoined = Transaction.rejoin(controller, transaction.stream, transaction.id, SHORTEST_LEASE)
    assert rejoined.segments == transaction.segments
    rejoined.commit()
    assert transaction.status() is TransactionStatus.COMMITTED


def test_the_segments_of_a_transaction_carry_its_epoch(controller: Controller, stream: Stream) -> None:
    """Also the one that is older than the transaction: it took no part in the scaling."""
    controller.scale_stream(stream, [0], [(0.0, 0.25), (0.25, 0.5)])
    transaction = Transaction.begin(controller, stream, SHORTEST_LEASE)
    assert get_transaction_epoch(transaction.id) == 1
    numbers_and_epochs = [
        (get_segment_number(segment.segment_id), get_segment_epoch(segment.segment_id))
        for segment in transaction.segments
    ]
    assert numbers_and_epochs == [(2, 1), (3, 1), (1, 1)]
    assert Transaction.rejoin(controller, stream, transaction.id, SHORTEST_LEASE).segments == transaction.segments
    transaction.commit()


@pytest.mark.parametrize("leases", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_lease_ends_unless_it_is_kept_alive(controller: Controller, stream: Stream, leases: int) -> None:
    """A server allows 1000 times the first lease; the first is made long, and the wanted one follows at once."""
    begun = time.monotonic()
    left, kept = (Transaction.begin(controller, stream, SHORTEST_LEASE) for _ in range(2))
    kept.keep_alive()
    kept.keep_alive()
    # The one that was begun first and is left alone shows that the lease of the other is over as well.
    wait_until(lambda: left.status() is TransactionStatus.ABORTED, "the lease never ended")
    assert time.monotonic() - begun < 80, "the wanted lease is not the one that counts"
    for _ in range(1, leases):
        later = Transaction.begin(controller, stream, SHORTEST_LEASE)
        wait_until(lambda later=later: later.status() is TransactionStatus.ABORTED, "the lease never ended")  # type: ignore[misc]
    assert kept.status() is TransactionStatus.OPEN
    assert kept.failure is None
    with pytest.raises(TransactionNotOpenError, match="cannot be committed: it is aborted; its lease may have ended"):
        left.commit()
    kept.commit()
    assert kept.status() is TransactionStatus.COMMITTED


def test_a_failing_keep_alive_is_recorded(controller: Controller, transaction: Transaction) -> None:
    transaction.keep_alive()
    transaction.abort()
    assert transaction.failure is None, "an abort of our own is no failure"
    lost = Transaction.begin(controller, transaction.stream, SHORTEST_LEASE)
    lost.keep_alive()
    # The server aborts what is open on a stream that is sealed.
    controller.seal_stream(transaction.stream)
    wait_until(lambda: lost.failure is not None, "the keep-alive never noticed")
    assert isinstance(lost.failure, TransactionNotOpenError)


@pytest.fixture
def cut_off(
    client_config: ClientConfig, controller: Controller, proxy_to: Callable[..., CuttingProxy]
) -> Iterator[tuple[Controller, CuttingProxy]]:
    """Another connection to the controller that tries each call for half a second, and the proxy it goes through."""
    proxy = proxy_to(client_config.controller_endpoints[0])
    uri = f"{'tls' if client_config.tls else 'tcp'}://{proxy.endpoint.host}:{proxy.endpoint.port}"
    with Controller(replace(client_config, controller_uri=uri, retry_timeout=0.5, request_timeout=5.0)) as connected:
        yield connected, proxy


def test_pings_that_fail_are_repeated(
    controller: Controller,
    stream: Stream,
    cut_off: tuple[Controller, CuttingProxy],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The network is away when the first ping is due, and back before the lease ends."""
    begun, left = (Transaction.begin(controller, stream, SHORTEST_LEASE) for _ in range(2))
    far, proxy = cut_off
    proxy.limits.extend([(0, 0)] * 10_000)
    kept = Transaction(far, stream, begun.id, begun.segments, SHORTEST_LEASE)
    kept.keep_alive()
    wait_until(lambda: "cannot be kept alive" in caplog.text, "no ping failed")
    proxy.limits.clear()
    # The one that was begun later and is left alone shows that the lease of the other is over.
    wait_until(lambda: left.status() is TransactionStatus.ABORTED, "the lease never ended")
    assert kept.failure is None
    assert kept.status() is TransactionStatus.OPEN
    kept.commit()


def test_a_commit_whose_answers_are_lost(stream: Stream, cut_off: tuple[Controller, CuttingProxy]) -> None:
    far, proxy = cut_off
    begun = Transaction.begin(far, stream, SHORTEST_LEASE)
    # What is sent arrives, but hardly an answer comes back.
    proxy.limits.extend([(None, 80)] * 8)
    proxy.cut_all()
    begun.commit(60)
    assert begun.status() is TransactionStatus.COMMITTED


def test_a_commit_that_nobody_answers(
    controller: Controller, stream: Stream, cut_off: tuple[Controller, CuttingProxy]
) -> None:
    far, proxy = cut_off
    begun = Transaction.begin(far, stream, SHORTEST_LEASE)
    proxy.close()
    with pytest.raises(TransactionOutcomeUnknownError, match=f"{begun.id}.*look at the data"):
        begun.commit(1)
    assert controller.transaction_status(stream, begun.id) is TransactionStatus.OPEN


@pytest.mark.parametrize("lease", [-1, 0, 9_999, 600_001, 1 << 40])
def test_leases_out_of_bounds(controller: Controller, stream: Stream, lease: int) -> None:
    with pytest.raises(InvalidOptionError, match=f"refuses a transaction lease of {lease} ms.*from 10000 to 600000 ms"):
        Transaction.begin(controller, stream, lease)


def test_a_ping_with_too_long_a_lease(controller: Controller, transaction: Transaction) -> None:
    with pytest.raises(InvalidOptionError, match="refuses a transaction lease of 600001 ms"):
        controller.ping_transaction(transaction.stream, transaction.id, 600_001)
    controller.ping_transaction(transaction.stream, transaction.id, 600_000)
    assert transaction.status() is TransactionStatus.OPEN
    transaction.abort()


def test_empty_transactions_in_parallel(controller: Controller, stream: Stream) -> None:
    transactions = [Transaction.begin(controller, stream, SHORTEST_LEASE) for _ in range(5)]
    assert len({transaction.id for transaction in transactions}) == 5
    for transaction in transactions:
        controller.commit_transaction(stream, transaction.id)
    for transaction in transactions:
        transaction.commit()


def test_event_time_goes_with_the_commit(controller: Controller, transaction: Transaction) -> None:
    controller.commit_transaction(transaction.stream, transaction.id, writer="w", event_time=1_700_000_000_000)
    transaction.commit()
