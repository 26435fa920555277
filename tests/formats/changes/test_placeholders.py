"""The placeholder for a value that was not sent, in each form that Debezium's connectors write.

The forms are transcribed from Debezium's `UnchangedToastedPlaceholder`, `PostgresValueConverter`,
`BinlogValueConverters` and `OracleValueConverters`; those of fixed placeholders were computed by Java's own classes.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pyspark.sql import types as t

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.changes.placeholders import Placeholder
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.changes.test_debezium_encodings import decode

DEFAULT = "__debezium_unavailable_value"
UUIDS = {  # UUID.nameUUIDFromBytes(placeholder.getBytes(UTF_8)) of OpenJDK 17
    DEFAULT: "b68a35a7-17ad-35b3-af2a-ae46edb4545a",
    "<gone>~~?": "b30afc62-fa28-3bc4-b38b-d7ef4a4ab913",
    "é✂": "df1f588d-2a8f-3724-a366-72d94666f580",
}
BYTES = {"é✂": [-61, -87, -30, -100, -126]}


def forms(text: str) -> dict[str, tuple[t.DataType, Any, Any]]:
    """The column, the placeholder and an ordinary value, in JSON, by the type in the database and its mode."""
    raw = text.encode()
    numbers = BYTES.get(text) or [ord(letter) for letter in text]
    coded = base64.b64encode(raw).decode()
    of_hstore = json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))
    return {
        "text": (t.StringType(), text, "long"),
        "json in VARIANT": (t.VariantType(), text, '{"a":1}'),
        "numeric": (t.DecimalType(9, 2), text, "1.50"),
        "bytea": (t.BinaryType(), coded, "QUJD"),
        "bytea, base64-url-safe": (t.BinaryType(), base64.urlsafe_b64encode(raw).decode(), "QUJD"),
        "bytea, hex": (t.BinaryType(), raw.hex(), "QUJD"),
        "bytea, PostgreSQL in hex": (t.BinaryType(), text, "QUJD"),
        "text[]": (t.ArrayType(t.StringType()), [text], ["a", "b"]),
        "bytea[]": (t.ArrayType(t.BinaryType()), [coded], ["QUJD"]),
        "int[]": (t.ArrayType(t.IntegerType()), numbers, [1, 2]),
        "date[]": (t.ArrayType(t.DateType()), numbers, [1, 2]),
        "bigint[]": (t.ArrayType(t.LongType()), numbers, [1, 2]),
        "double[]": (t.ArrayType(t.DoubleType()), [float(number) for number in numbers], [1.5, 2.5]),
        "int[] in VARIANT": (t.VariantType(), numbers, [1, 2]),
        "int[] in STRING": (t.StringType(), numbers, [1, 2]),
        "uuid[]": (t.ArrayType(t.StringType()), [UUIDS[text]], ["00000000-0000-0000-0000-00000000002a"]),
        "hstore, json": (t.StringType(), of_hstore, '{"a":"b"}'),
        "hstore, json in VARIANT": (t.VariantType(), of_hstore, '{"a":"b"}'),
        "hstore, map": (t.MapType(t.StringType(), t.StringType()), {text: text}, {"a": "b"}),
        "hstore, map in VARIANT": (t.VariantType(), {text: text}, {"a": "b"}),
    }


def change(value: Any, before: Any = None) -> bytes:
    source = {"connector": "postgresql", "name": "p", "ts_ms": 1, "snapshot": "false", "lsn": 1}
    former = None if before is None else {"id": 1, "v": before}
    event = {"op": "u", "before": former, "after": {"id": 1, "v": value}, "source": source, "ts_ms": 1}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", sorted(forms(DEFAULT)))
@pytest.mark.parametrize("text", sorted(UUIDS))
@pytest.mark.parametrize("given", ["text", "hex"])
def test_each_form_is_recognized(kind: str, text: str, given: str) -> None:
    data_type, placeholder, ordinary = forms(text)[kind]
    table = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", data_type)])
    setting = text if given == "text" else f"hex:{text.encode().hex()}"
    events = [
        change(ordinary),
        change(placeholder),
        change(placeholder, before=ordinary),
        change(placeholder, placeholder),
    ]
    plain, gone, known, unknown = decode(table, events, debezium__unavailable_value=setting)
    assert plain["unavailable"] == [] and plain["after"]["v"] is not None
    assert gone["unavailable"] == ["v"] and gone["after"]["v"] is None
    # REPLICA IDENTITY FULL: the event itself has the value.
    assert known["unavailable"] == [] and known["after"] == plain["after"]
    assert unknown["unavailable"] == ["v"] and unknown["after"]["v"] is None


def test_other_ways_to_write_it() -> None:
    table = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", t.StringType())])
    # Writers of JSON for web pages escape these; connectors but PostgreSQL's and MySQL's do not decode `hex:`.
    for written, setting in (
        (b'"\\u003csame\\u003e"', "<same>"),
        (b'"hex:3c73"', "hex:3c73"),
        (b'"PHNhbWU\\u003d"', "<same"),
    ):
        event = change("?").replace(b'"?"', written)
        (row,) = decode(table, [event], debezium__unavailable_value=setting)
        assert row["unavailable"] == ["v"], written


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("kind", [kind for kind in sorted(forms(DEFAULT)) if kind.partition("[")[2]])
def test_arrays_with_blanks(kind: str, indent: int | None) -> None:
    """As other programs write them again: whatever the column's type."""
    data_type, placeholder, ordinary = forms(DEFAULT)[kind]
    for column_type in (data_type, t.VarcharType(2000)) if kind == "int[] in STRING" else (data_type,):
        table = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", column_type)])
        events = [json.dumps(json.loads(change(value)), indent=indent).encode() for value in (ordinary, placeholder)]
        assert [row["unavailable"] for row in decode(table, events)] == [[], ["v"]]


def test_an_empty_former_value_is_none() -> None:
    """Debezium writes it for a NOT NULL column that the old row lacks."""
    table = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", t.StringType())])
    (row,) = decode(table, [change(DEFAULT, before="")])
    assert row["unavailable"] == ["v"] and row["after"]["v"] is None


def test_values_that_only_look_alike() -> None:
    numbers = [ord(letter) for letter in DEFAULT]
    table = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", t.ArrayType(t.IntegerType()))])
    rows = decode(table, [change([*numbers, 1]), change(numbers[1:])])
    assert [row["unavailable"] for row in rows] == [[], []]
    text = t.StructType([t.StructField("id", t.LongType()), t.StructField("v", t.StringType())])
    rows = decode(text, [change(f"x{DEFAULT}"), change(f'{{"{DEFAULT}":"x"}}')])
    assert [row["unavailable"] for row in rows] == [[], []]


@pytest.mark.parametrize("setting", ["hex:", "hex:3", "hex:xy"])
def test_a_wrong_number(setting: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"two hexadecimal digits .* 'unavailable.value.placeholder'"):
        Placeholder.of(setting)


def test_rows_of_snapshots_are_read_whatever_their_letter() -> None:
    """As Debezium wrote them, before ReadToInsertEvent made `c` of `r`."""
    table = t.StructType([t.StructField("id", t.LongType())])

    def created(mark: Any) -> bytes:
        event = json.loads(change(None))
        event["op"], event["source"]["snapshot"] = "c", mark
        return json.dumps(event).encode()

    marks = [
        "true",
        "first",
        "last",
        "first_in_data_collection",
        "last_in_data_collection",
        "incremental",
        "false",
        None,
    ]
    rows = decode(table, [created(mark) for mark in marks])
    assert [row["op"] for row in rows] == ["r"] * 5 + ["c"] * 3
    # Blocks without the mark, or with one of another type, as releases before 1.0 wrote.
    assert [row["op"] for row in decode(table, [created(True), created(False), created([])])] == ["r", "c", "c"]


@pytest.mark.parametrize("connector", ["yugabytedb", "cassandra"])
def test_cells_are_refused_by_name(connector: str) -> None:
    table = t.StructType([t.StructField("id", t.StringType()), t.StructField("a", t.StringType())])
    cells: dict[str, Any] = {"id": {"value": "k", "set": True}, "a": None}
    if connector == "cassandra":
        cells["id"]["deletion_ts"] = None
    source = {"connector": connector, "name": "c", "ts_ms": 1}
    written = json.dumps({"op": "u", "before": None, "after": cells, "source": source}, separators=(",", ":")).encode()
    for event in (written, json.dumps(json.loads(written)).encode()):
        decoder = find_format("debezium-json").decoder(Layout(changelog_schema(table), "", {}))
        _, (bad,) = decoder.decode_valid(EventBuffer.of([event]))
        assert "its columns are cells with 'value' and 'set'" in bad.reason
    unset = {"op": "u", "before": None, "after": {"a": None, "id": cells["id"]}, "source": source}
    decoder = find_format("debezium-json").decoder(Layout(changelog_schema(table), "", {}))
    _, (bad,) = decoder.decode_valid(EventBuffer.of([json.dumps(unset, separators=(",", ":")).encode()]))
    assert "its columns are cells" in bad.reason
    # An object of one's own with such members in another place is a value.
    own = {"op": "u", "before": None, "after": {"id": "k", "a": {"value": 1, "set": True}}, "source": source}
    (row,) = decode(table, [json.dumps(own, separators=(",", ":")).encode()])
    assert json.loads(row["after"]["a"]) == {"value": 1, "set": True}
