"""Tables for queries that are generated: rows that changes lead to, and bad events in every mode."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pyspark_pravega.client import connect
from pyspark_pravega.client.stream import Stream
from tests.catalog.queries.generated_columns import columns, source
from tests.catalog.queries.generated_tables import POSITIONS, ROWS, SWITCHES, Maker, ways_of, with_options
from tests.catalog.queries.test_bad_event_modes import BAD
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

JSON = "id k i l w d t b dt at p x a s"
CURRENT = "id k i t b dt at p"
MODES = {
    "permissive": ({"mode": "permissive"}, 12, f"{POSITIONS} _error _raw"),
    "dropped": ({"mode": "dropmalformed"}, 8, POSITIONS),
    "lettered": ({"dead-letter": "letters"}, 2, POSITIONS),
}


def current(maker: Maker) -> None:
    """The rows that changes lead to, half of them made of two."""
    some, name = columns(CURRENT), maker.name("current")
    types = ", ".join(f"{column.name} {column.type}" for column in some)
    maker.spark.sql(f"CREATE TABLE {name} ({types}) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    for first, rows in ((7, f"range({ROWS})"), (0, f"range({ROWS // 2})")):
        moved = ", ".join(column.source(first + place) for place, column in enumerate(some))
        maker.spark.sql(f"INSERT INTO {name} SELECT {moved} FROM {rows}")
    maker.add("current", some, ways_of(name), 5, sequential=False)


def bad(maker: Maker) -> None:
    """JSON without framing; every twentieth event does not fit the table."""
    name = _with_bad_events(maker, "bad", "'format'='json', 'framing'='none'")
    for mode, (options, weight, hidden) in MODES.items():
        maker.add(mode, columns(JSON), ways_of(name, options), weight, sequential=True, hidden=hidden)
    ways = {"pushed": name, "not pushed": f"{name}{with_options(dict.fromkeys(SWITCHES, 'false'))}"}
    maker.made.append(replace(maker.made[-1], name="failfast", hidden=(), ways=ways, weight=0))


def bad_avro(maker: Maker) -> None:
    """The same as Avro with the header of the registry's serializers, which bad ones do not have."""
    name = _with_bad_events(maker, "badavro", "'format'='avro'")
    for mode, (options, weight, hidden) in MODES.items():
        if mode != "lettered":
            some = columns(JSON)
            maker.add(f"{mode}_avro", some, ways_of(name, options), weight // 2, sequential=True, hidden=hidden)


def _with_bad_events(maker: Maker, name: str, properties: str) -> str:
    some, table = columns(JSON), maker.name(name)
    types = ", ".join(f"{column.name} {column.type}" for column in some)
    maker.spark.sql(f"CREATE TABLE {table} ({types}) TBLPROPERTIES ({properties})")
    good = source(some, f"range({ROWS // 4} * {{}}, {ROWS // 4} * ({{}} + 1), 1, 1)")
    # JSON has no such numbers.
    good = good.replace("double('NaN')", "1.5d").replace("double('-Infinity')", "-2.5d")
    batch = pa.record_batch([pa.array([*BAD, b'{"id":"x"}', b'{"i":2147483648}'], pa.binary())], names=["event"])
    for part in range(4):
        maker.spark.sql(f"INSERT INTO {table} {good.format(part, part)}")
        if part < 3:
            with connect(maker.config) as pravega:
                insert(pravega, raw_table(Stream(maker.namespace, name)), batch)
    return table
