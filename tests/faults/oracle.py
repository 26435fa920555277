"""What must hold whatever is harmed: each event once, in its key's order, and no part of a micro-batch ever seen."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.streaming.changes_streams import scale
from tests.catalog.tables.test_debezium import write
from tests.debezium import Record

KEYS = 20


class Tables:
    """The source and the target of a query under test, tables of one scope."""

    def __init__(
        self,
        spark: SparkSession,
        scope: str,
        *,
        marked: bool = True,
        others: Sequence[str] = (),
        catalog: str = "pravega",
    ) -> None:
        """`marked`: the target has a column for the micro-batch; `others` are names of more tables to be written."""
        self.spark, self.scope, self._catalog = spark, scope, catalog
        self.source, self.target = self.name("source"), self.name("target")
        self.streams = Stream(scope, "source"), Stream(scope, "target")
        plain = "'format'='json', 'framing'='none', 'routing-key'='k'"
        for name in ("source", "target", *others):
            more = ", epoch BIGINT NOT NULL" if marked and name == "target" else ""
            more = ", padding STRING" if name == "large" else more
            spark.sql(
                f"CREATE TABLE {self.name(name)} (k INT NOT NULL, seq BIGINT NOT NULL{more}) USING pravega "
                f"TBLPROPERTIES ({plain}, 'scaling.min-segments'='3')"
            )

    def name(self, table: str) -> str:
        """Return the full name of a table."""
        return f"{self._catalog}.`{self.scope}`.`{table}`"


class Background:
    """A thread that repeats a step until it is ended, and passes its error on."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._repeat, name=type(self).__name__, daemon=True)

    def step(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the step that runs come to its end; raises what any has raised."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _repeat(self) -> None:
        try:
            while not self._over.is_set():
                self.step()
                self._over.wait(self._pause)
        except BaseException as error:
            self._error = error


class Feeder(Background):
    """Appends events to the source all the time; scales source and target now and then."""

    def __init__(self, config: ClientConfig, tables: Tables, *, events: int = 20, scale_every: int = 50) -> None:
        super().__init__(0.15)
        self._config, self._tables = config, tables
        self.events, self._scale_every = events, scale_every
        self.written = self.rounds = self.scaled = 0

    def step(self) -> None:
        with connect(self._config) as pravega:
            self.feed(pravega)

    def feed(self, pravega: Pravega) -> None:
        """Append some events; every now and then scale one of the tables."""
        first = self.written
        events = [
            Record(str(number % KEYS), json.dumps({"k": number % KEYS, "seq": number}).encode())
            for number in range(first, first + self.events)
        ]
        write(pravega, self._tables.streams[0], events)
        self.written += len(events)
        self.rounds += 1
        if self._scale_every and self.rounds % self._scale_every == 0:
            # Both streams are split and merged by turns.
            scale(pravega, self._tables.streams[self.scaled % 2], self.scaled // 2)
            self.scaled += 1


@dataclass
class Reader(Background):
    """Selects the target again and again, from another driver; keeps how many rows of which micro-batch it saw."""

    tables: Tables
    seen: list[Counter[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(1.0)

    def step(self) -> None:
        rows = self.tables.spark.sql(f"SELECT epoch FROM {self.tables.target}").collect()
        self.seen.append(Counter(row.epoch for row in rows))


def check(tables: Tables, written: int, reader: Reader) -> None:
    """Compare the target with what was written and with what the reader saw of it."""
    rows = tables.spark.sql(f"SELECT k, seq, epoch, _segment, _offset FROM {tables.target}").collect()
    doubled = check_events([(row.k, row.seq) for row in rows], written)
    assert not doubled, f"{len(doubled)} doubled: {doubled[:10]}"
    check_order_of(rows)
    whole = Counter(row.epoch for row in rows)
    epochs = sorted(whole)
    for seen in reader.seen:
        parts = {epoch: (count, whole[epoch]) for epoch, count in seen.items() if count != whole[epoch]}
        assert not parts, f"parts of micro-batches were seen: {parts}"
        assert sorted(seen) == epochs[: len(seen)], f"micro-batches {sorted(seen)[-3:]} were seen before earlier ones"


def check_events(found: Iterable[tuple[int, int]], written: int) -> list[int]:
    """Compare keys and numbers of events with what was written: none is lost; return those that came again."""
    counts = Counter(found)
    keys = {seq: key for key, seq in counts}
    lost = sorted(set(range(written)) - set(keys))
    assert not lost, f"{len(lost)} lost: {lost[:10]}"
    assert set(counts) == {(seq % KEYS, seq) for seq in range(written)}
    return sorted(seq for (_, seq), count in counts.items() if count > 1)


def check_copy(tables: Tables, name: str, written: int) -> None:
    """Compare another table than the target with what was written: each event once, and in its key's order."""
    rows = tables.spark.sql(f"SELECT k, seq, _segment, _offset FROM {tables.name(name)}").collect()
    doubled = check_events([(row.k, row.seq) for row in rows], written)
    assert not doubled, f"{name}: {len(doubled)} doubled: {doubled[:10]}"
    check_order_of(rows)


def check_at_least_once(what: str, found: Iterable[tuple[int, int]], written: int) -> None:
    """Compare keys and numbers of events with what was written: all are there, and maybe some again."""
    print(f"{what}: {len(check_events(found, written))} events are there again")


def check_order_of(rows: list[Row]) -> None:
    """Compare the order of each key's rows with that of its events."""
    by_key: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in rows:
        # A key has one segment at a time; of those that follow each other the name tells the epoch of the stream.
        by_key[row.k].append((int(row._segment.rpartition(".")[2]), row._offset, row.seq))
    for key, places in by_key.items():
        order = [seq for _, _, seq in sorted(places)]
        assert order == sorted(order), f"key {key} lost its order"
