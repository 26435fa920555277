"""The threads of one process commit one after the other, first come, first served."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import HeadRow
from pyspark_pravega.datasource.commit_log.turns import Turns
from pyspark_pravega.errors import ServerTimeoutError
from tests.datasource.transactions import PAYLOAD_BYTES, SETTINGS, begin_insert, insert_into_all, log_rows


def test_first_come_first_served() -> None:
    turns, served, waiting = Turns(), list[int](), list[threading.Thread]()

    def serve(number: int) -> None:
        with turns.take("a", 60) as is_first:
            served.append(number if is_first else -1)

    with turns.take("a", 60) as is_first, turns.take("b", 0) as is_first_of_others:
        assert is_first and is_first_of_others
        for number in range(5):
            waiting.append(threading.Thread(target=serve, args=(number,)))
            waiting[-1].start()
            while len(turns._waiting["a"]) < number + 2:
                assert waiting[-1].is_alive()
        with turns.take("a", 0) as is_first:
            assert not is_first  # and it waits no longer
        assert served == []
    for thread in waiting:
        thread.join()
    assert served == [0, 1, 2, 3, 4]
    assert turns._waiting == {}


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.take("a", 0):
        raise ZeroDivisionError
    with turns.take("a", 0) as is_first:
        assert is_first


def test_those_who_wait_do_not_look_at_the_log(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, each, looks = 12, 2, list[Stream]()
    read_head = CommitLog._head

    def count(log: CommitLog) -> HeadRow:
        looks.append(log._stream)
        return read_head(log)

    stream = new_stream(1)
    insert_into_all(pravega, stream, 1)
    monkeypatch.setattr(CommitLog, "_head", count)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: insert_into_all(pravega, stream, 1), range(threads * each)))
    assert looks.count(stream) <= 2 * threads * each
    head, *versions = log_rows(pravega, stream.scope)
    assert (head["version"], head["committing"]) == (threads * each + 1, [])
    assert len({row["transaction"] for row in versions}) == len(versions)


def test_a_turn_that_does_not_come(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(1)
    insert, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES], replace(SETTINGS, commit_timeout=0.2))
    with CommitLog(pravega, stream).take_turn(insert.transaction.id):
        with ThreadPoolExecutor(1) as pool, pytest.raises(ServerTimeoutError, match="did not get its turn.*run it"):
            pool.submit(insert.commit, messages).result()
    insert_into_all(pravega, stream, 1)
    head = CommitLog(pravega, stream).head()
    assert head is not None and (head.version, head.committing) == (1, ())
