"""The requests and replies of the pipe: the records of the Java adapter are the dataclasses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog import protocol
from pyspark_pravega.catalog.protocol import service_replies
from pyspark_pravega.catalog.protocol.message_codec import decode, encode
from pyspark_pravega.catalog.protocol.service_replies import InsertHandle, ScanEnds
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.scan.aggregates.aggregation import AggregateFunction, Aggregation
from pyspark_pravega.datasource.scan.conditions import Condition, Term
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.source import MicroBatchEnd
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, ProtocolError

JVM = Path(__file__).parents[3] / "jvm"
JAVA = [JVM / sources / "io" / "github" / "pysparkpravega" for sources in ("src", "spark42")]
SOURCES = {file.stem: file.read_text() for java in JAVA for file in sorted(java.glob("*.java"))}

RECORD = re.compile(r"\brecord (\w+)\(([^)]*)\)\s*(?:implements ([\w<>, \[\]]+?))?\s*\{")
COMPONENT = re.compile(r"(@OrNull )?(\w+(?:<(?:[\w, \[\]]|<[\w, ]+>)+>)?(?:\[\])?) (\w+)(?:, |$)")
KINDS: dict[Any, str] = {
    bool: "boolean", int: "number", str: "text", StructType: "schema", DataType: "schema", StreamTable: "text",
    ScanEnds: "any", Any: "any",
}  # fmt: skip
JAVA_KINDS = {
    "boolean": "boolean", "int": "number", "long": "number", "Long": "number", "String": "text", "byte[]": "text",
    "StructType": "schema", "DataType": "schema", "JsonNode": "any", "Map<String, String>": "texts by texts",
}  # fmt: skip


@dataclass(frozen=True)
class Component:
    """A part of a record of Java, or of a dataclass: its name in JSON, its kind, and whether it may be null."""

    name: str
    kind: str
    optional: bool


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def java_kind(type: str) -> str:
    if type in JAVA_KINDS:
        return JAVA_KINDS[type]
    if element := re.fullmatch(r"List<(.*)>|(.*)\[\]", type):
        inner = java_kind(element[1] or element[2])
        return "any" if inner == "any" else f"list of {inner}"
    return type


def python_kind(hint: Any) -> str:
    """Return the kind as `java_kind` does; two-tuples of equal types are lists."""
    if hint in KINDS:
        return KINDS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Mapping:
        return "texts by texts"
    if origin is tuple:
        inner = python_kind(arguments[0])
        return "any" if inner == "any" else f"list of {inner}"
    return str(hint.__name__)


def records(file: str) -> dict[str, tuple[Component, ...]]:
    return {
        name: tuple(
            Component(snake(component), java_kind(type), bool(optional))
            for optional, type, component in COMPONENT.findall(re.sub(r"\s+", " ", components))
        )
        for name, components, _ in RECORD.findall(SOURCES[file])
    }


def components(kind: type) -> tuple[Component, ...]:
    found = []
    for field in dataclass_fields(kind):
        hint = get_type_hints(kind)[field.name]
        optional = NoneType in get_args(hint)
        [hint] = [each for each in get_args(hint) if each is not NoneType] if optional else [hint]
        found.append(Component(field.name, python_kind(hint), optional))
    return tuple(found)


def parts(kinds: Iterable[type]) -> dict[str, type]:
    """The dataclasses, by their names, with those in them: the records that Java must have."""
    found: dict[str, type] = {}
    for kind in kinds:
        found[kind.__name__] = kind
        hints = list(get_type_hints(kind).values())
        for hint in hints:
            hints += get_args(hint)
        # A table and the ends of scans go back and forth as they are; Java looks at none of their fields.
        inner = [each for each in hints if isinstance(each, type) and is_dataclass(each)]
        found |= parts(each for each in inner if each not in (StreamTable, ScanEnds))
    return found


REPLIES = parts(
    (
        service_replies.TableDescription,
        service_replies.SourceDescription,
        service_replies.KeySpace,
        service_replies.ViewDefinition,
        service_replies.Relations,
        service_replies.MetadataDescription,
        service_replies.MetadataRows,
        service_replies.PlannedRead,
        service_replies.ProcedureDescription,
        service_replies.QueryCommands,
        service_replies.InsertBegun,
        service_replies.QueryCommands,
        MicroBatchEnd,
        Limits,
    )
)
REQUESTS = {name: kind for name, kind in parts(get_args(protocol.Request)).items() if name not in REPLIES}


def test_java_calls_the_operations_that_there_are() -> None:
    requests = {name for name, _, of in RECORD.findall(SOURCES["Requests"]) if of.startswith("Request<")}
    assert {snake(name) for name in requests} == set(protocol.OPERATIONS)
    made = {name for text in SOURCES.values() for name in re.findall(r"\bnew (?:Requests\.)?(\w+)\(", text)}
    assert requests <= made


@pytest.mark.parametrize(("file", "kinds"), [("Requests", REQUESTS), ("Replies", REPLIES)])
def test_records_of_java_are_the_dataclasses(file: str, kinds: dict[str, type]) -> None:
    assert records(file) == {name: components(kind) for name, kind in kinds.items()}


def test_java_reads_the_fields_of_replies() -> None:
    text = "\n".join(text for name, text in SOURCES.items() if name != "Replies")
    read = {snake(dotted or method) for dotted, method in re.findall(r"\.(\w+)\(\)|\w::(\w+)", text)}
    # Spark reads the columns that are hidden. Limits, and what finishes an INSERT but for its transaction, go back as
    # they are.
    kinds = [kind for name, kind in REPLIES.items() if name not in ("HiddenColumn", "InsertHandle", "Limits")]
    assert {component.name for kind in kinds for component in components(kind)} <= read


def fields(kinds: Iterable[type]) -> set[str]:
    """The names of the fields of dataclasses and of those in them."""
    return {field.name for kind in parts(kinds).values() for field in dataclass_fields(kind)}


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
        service_replies.ViewDefinition("SELECT 'ü'", SCHEMA, None, (), {"a.b": "c"}, None, ("a", "b"), {"comment": ""}),
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
    protocol.CommitInsert(TABLE, InsertHandle("transaction", "id", 2, {"a": "b"}), ("AA==",), False),
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
    spelled = fields((*get_args(protocol.Request), ScanEnds, service_replies.ScanEnd, InsertHandle))
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
