"""What is remembered of a query that writes: a transaction begun ahead is used once, or aborted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.writing import writing_queries as writing_queries
from pyspark_pravega.catalog.writing.writing_queries import WritingQueries
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch
from tests.datasource.transactions import SETTINGS, raw_table

ENDED = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


class Query:
    """A query that commits epochs into a stream, as far as its memory is concerned."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self.memory = WritingQueries()
        self.settings = SETTINGS
        self._pravega, self._stream = pravega, stream
        self._catalog = Catalog({}, pravega)
        self._key = stream, "query"

    def begin(self) -> Insert:
        return self.memory.begin(self._key, self._pravega, raw_table(self._stream), self.settings)

    def commit(self, number: int) -> Insert:
        """Do an epoch; nothing of it is committed."""
        insert = self.begin()
        epoch = Epoch("query", number, "run")
        log = self.memory.find_log(self._key, self._pravega, insert, epoch)
        self.memory.note_commit(self._key, self._catalog, insert, epoch, log)
        self._newest = self.memory._ahead.get(self._key)
        insert.abort()
        return insert

    def keep(self, insert: Insert) -> None:
        self.memory.keep(self._key, self._catalog, insert)

    def goes_on(self, number: int, run: str = "run") -> bool:
        return self.memory.is_continued_by(self._key, Epoch("query", number, run))

    def ahead(self) -> Insert | None:
        """What was begun ahead."""
        found = self.memory._ahead.get(self._key)
        return self._insert_of(found) if found is not None else None

    def begun_ahead(self) -> Insert | None:
        """What the last epoch began ahead, be it over or not."""
        assert self._newest is not None
        return self._insert_of(self._newest)

    @staticmethod
    def _insert_of(ahead: writing_queries._TransactionAhead) -> Insert | None:
        assert ahead.begun.wait(30)
        return ahead.insert


@pytest.fixture
def query(client_config: ClientConfig, scope: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    """A query that is busy, and goes on, however slow this machine is."""
    monkeypatch.setattr(writing_queries, "BUSY_SECONDS", 60.0)
    monkeypatch.setattr(writing_queries, "AHEAD_SECONDS", 600.0)
    with connect(client_config) as pravega:
        stream = Stream(scope, "stream")
        pravega.controller.create_stream(stream, StreamConfiguration())
        made = Query(pravega, stream)
        yield made
        for thread in made.memory.end():
            thread.join()


def ends(insert: Insert) -> bool:
    deadline = time.monotonic() + 30
    while insert.transaction.status() not in ENDED:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_busy_query_gets_its_next_transaction_ahead(query: Query) -> None:
    query.commit(0)
    assert query.ahead() is None  # it may be the only epoch
    query.commit(1)
    ahead = query.ahead()
    assert ahead is not None
    taken = query.begin()
    assert taken.transaction is ahead.transaction
    assert taken.transaction.status() is TransactionStatus.OPEN
    assert query.ahead() is None
    taken.abort()


def test_a_transaction_for_nobody_is_aborted(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing_queries, "AHEAD_SECONDS", 0.1)
    query.commit(0)
    query.commit(1)
    ahead = query.begun_ahead()
    assert ahead is not None and ends(ahead)


def test_one_that_is_open_when_the_driver_ends_is_aborted(query: Query) -> None:
    query.commit(0)
    query.commit(1)
    ahead = query.ahead()
    assert ahead is not None
    for thread in query.memory.end():
        thread.join(30)
        assert not thread.is_alive()
    assert ends(ahead)


def test_one_that_was_aborted_meanwhile_is_not_used(query: Query) -> None:
    query.commit(0)
    query.commit(1)
    ahead = query.ahead()
    assert ahead is not None
    ahead.transaction.failure = ahead.transaction.explain_end()  # as the keep-alive learns it from the server
    begun = query.begin()
    assert begun.transaction.id != ahead.transaction.id
    begun.abort()
    ahead.abort()


def test_the_transaction_of_an_empty_epoch_serves_the_next_one(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.commit(0)
    empty = query.begin()
    assert query.goes_on(1) and not query.goes_on(0) and not query.goes_on(1, "another run")
    ping, renewed = Transaction.ping, []

    def noted(transaction: Transaction) -> None:
        ping(transaction)
        renewed.append(transaction.id)

    monkeypatch.setattr(Transaction, "ping", noted)
    query.keep(empty)
    empty.transaction.stop()  # as whoever has committed does
    again = query.begin()
    assert again.transaction.id == empty.transaction.id
    assert renewed == [again.transaction.id]
    assert again.transaction.status() is TransactionStatus.OPEN
    assert not again.transaction._stop.is_set()
    again.abort()


@pytest.mark.long
def test_it_lives_as_long_as_empty_epochs_follow_each_other(query: Query) -> None:
    query.settings = replace(SETTINGS, lease=10.0)
    query.commit(0)
    empty = query.begin()
    first, end = empty.transaction.id, time.monotonic() + 1.5 * query.settings.lease
    while time.monotonic() < end:  # a lease that nobody renews is over by then
        query.keep(empty)
        empty.transaction.stop()  # as whoever has committed does
        time.sleep(0.2)
        empty = query.begin()
        assert empty.transaction.id == first
        assert empty.transaction.status() is TransactionStatus.OPEN
    empty.abort()


def test_it_is_replaced_before_it_is_too_old(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.commit(0)
    empty = query.begin()
    query.keep(empty)
    kept = query.begin()
    assert kept.transaction.id == empty.transaction.id
    assert kept.transaction.begun_at == empty.transaction.begun_at
    monkeypatch.setattr(writing_queries, "OLDEST_SECONDS", 0.0)
    query.keep(kept)
    assert ends(kept)
    new = query.begin()
    assert new.transaction.id != empty.transaction.id
    assert new.transaction.status() is TransactionStatus.OPEN
    new.abort()
