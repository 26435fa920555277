"""The requests and replies of the pipe: the Java adapter spells their names as the dataclasses do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog import protocol
from pyspark_pravega.catalog.protocol import replies
from pyspark_pravega.catalog.protocol.messages import decode, encode
from pyspark_pravega.catalog.protocol.replies import InsertHandle, ScanEnds
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.scan.aggregation import AggregateFunction, Aggregation
from pyspark_pravega.datasource.scan.conditions import Condition, Term
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, ProtocolError

JVM = Path(__file__).parent.parent.parent / "jvm"
JAVA = [JVM / sources / "io" / "github" / "pysparkpravega" for sources in ("src", "spark42")]
SOURCES = {
    file.stem: file.read_text() for java in JAVA for file in sorted(java.glob("*.java")) if file.stem != "PythonWorkers"
}
"""Without the one class that fills maps for Spark alone."""
PIPE = {"operation", "conf", "arguments", "result", "error", "condition", "message", "sql_state"}
"""Names of the lines themselves, in Service.java."""

CALLED = re.compile(r'\b(?:call|finish|repeat|commit)\(\s*"(\w+)"')
PLANNED = re.compile(r'options, "(plan_\w+)"\)')
WRITTEN = re.compile(r'\.(?:put|putNull|set|putArray|putObject)\(\s*"([\w-]+)"')
READ = re.compile(r'\.get\(\s*"(\w+)"\)')


def named(pattern: re.Pattern[str]) -> set[str]:
    return {name for text in SOURCES.values() for name in pattern.findall(text)}


def fields(kinds: Iterator[type] | tuple[type, ...]) -> set[str]:
    """The names of the fields of dataclasses and of those in them."""
    found: set[str] = set()
    for kind in kinds:
        for name, hint in get_type_hints(kind).items():
            found.add(name)
            inner = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and is_dataclass(each)]
            # A table and the ends of scans go back and forth as they are; Java looks at none of their fields.
            found |= fields(tuple(each for each in inner if each not in (StreamTable, ScanEnds, InsertHandle)))
    return found


def test_java_calls_the_operations_that_there_are() -> None:
    assert named(CALLED) | named(PLANNED) == set(protocol.OPERATIONS)


def test_java_writes_the_fields_of_requests() -> None:
    assert named(WRITTEN) - PIPE == fields(get_args(protocol.Request))


def test_java_reads_the_fields_of_replies() -> None:
    read = named(READ) - PIPE
    described = fields(
        (
            replies.SourceDescription,
            replies.KeySpace,
            replies.ViewDefinition,
            replies.Relations,
            replies.MetadataDescription,
            replies.MetadataRows,
            replies.PlannedRead,
            replies.ProcedureDescription,
            replies.InsertBegun,
            replies.MicroBatchEnd,
            Limits,
        )
    )
    # Java also reads some fields of its own requests again, and of an INSERT's handle the transaction.
    assert read - {"checkpoint", "columns", "options", "transaction"} == described


def test_java_writes_all_fields_of_what_is_in_a_list() -> None:
    assert set(get_type_hints(protocol.Constraint)) <= set(WRITTEN.findall(SOURCES["NewTables"]))
    assert set(get_type_hints(protocol.TableChange)) == set(WRITTEN.findall(SOURCES["TableChanges"]))


SCHEMA = StructType([StructField("a", LongType(), False), StructField("grüße", StringType())])
TABLE = StreamTable(
    stream=Stream("s", "t"),
    format="json",
    framing="none",
    schema=SCHEMA,
    schema_text="{}",
    schema_version=None,
    codec="none",
    routing_key=None,
    settings={},
    scan_properties={"read-mode": "x"},
)
ENDS = ScanEnds().with_end("earliest", "H4s" * 20_000, {1: 2, 3: 4}, 5)
AGGREGATION = Aggregation((AggregateFunction("CountStar", ()), AggregateFunction("Max", ("grüße",))), (("a",), ()))
CONDITION = Condition((Term("COLUMN", 0, None, "grüße"), Term("IS_NULL", 1, None, None)))
MESSAGES: list[Any] = [
    protocol.DefaultNamespace(),
    protocol.LoadTable(("iot",), "sensor", {"mode": "failfast", "": "=[]"}, True),
    protocol.LoadTable(("iot", "sensor"), "changelog", {}, False, protocol.TimeTravel("timestamp", "17")),
    protocol.CreateTable(
        *((("iot",), "sensor", SCHEMA, ("days(a)",))),
        (protocol.Constraint("PrimaryKey", "PRIMARY KEY (a)", False, ("a",)),),
        {"k" * 60_000: "v"},
        True,
        {"a": "5"},
    ),
    protocol.PutView(
        ("iot",),
        "v",
        replies.ViewDefinition("SELECT 'ü'", SCHEMA, None, (), {"a.b": "c"}, None, ("a", "b"), {"comment": ""}),
        True,
        False,
        True,
    ),
    protocol.AlterTable(("iot",), "sensor", (protocol.TableChange("RemoveProperty", "x", None),)),
    protocol.AlterTable(
        ("iot",),
        "sensor",
        (protocol.TableChange("AddColumn", None, None, ("grüße",), StructType([SCHEMA["grüße"]]), "a"),),
    ),
    protocol.LoadChangelog(("iot",), "t", {}, ChangeRange("version", "1", None, True, False, True)),
    protocol.PlanScan(TABLE, SCHEMA, {}, -1, None, 2),
    protocol.PlanScan(TABLE, SCHEMA, {}, 10, ENDS, 2),
    protocol.PlanScan(TABLE, SCHEMA, {}, -1, ENDS, 2, aggregation=AGGREGATION),
    protocol.PlanScan(TABLE, SCHEMA, {}, -1, ENDS, 2, every=SCHEMA, conditions=(CONDITION,)),
    protocol.TakeConditions(TABLE, SCHEMA, {}, (CONDITION,)),
    protocol.TakeAggregation(TABLE, SCHEMA, {}, AGGREGATION, Aggregation((), ())),
    protocol.CommitInsert(TABLE, InsertHandle("id", 2, {"a": "b"}), ("AA==",), False),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_equal(message: Any) -> None:
    assert decode(type(message), json.loads(json.dumps(encode(message)))) == message


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)


def test_no_data_are_keys() -> None:
    """A JSON reader may limit their length, as Jackson does, to 50,000 characters."""
    spelled = fields((*get_args(protocol.Request), ScanEnds, replies.ScanEnd, InsertHandle))
    assert {key for message in MESSAGES for key in keys(encode(message))} <= spelled


OTHERS: list[dict[str, Any]] = [{"other": 1}, {"cascade": 1}, {"cascade": None}, {"namespace": "a"}]


def test_other_fields_and_types_are_refused() -> None:
    good = {"namespace": ["a"], "cascade": True}
    assert decode(protocol.DropNamespace, good) == protocol.DropNamespace(("a",), True)
    bads: list[Any] = [{"namespace": ["a"]}, [], *({**good, **other} for other in OTHERS)]
    for bad in bads:
        with pytest.raises(ProtocolError, match="DropNamespace"):
            decode(protocol.DropNamespace, bad)


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(InvalidOptionError, match=r"'a\\ud83d' has '\\ud83d'"):
        decode(protocol.LoadNamespace, {"namespace": ["a\ud83d"]})
    assert decode(protocol.LoadNamespace, json.loads('{"namespace": ["\\ud83d\\ude00"]}')).namespace == ("😀",)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        encode([b"x"])
