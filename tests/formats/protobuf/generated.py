"""Generated Protobuf schemas, what is written with them on the wire, and which row Java's JSON text stands for.

A schema is made as proto2 or proto3, and as the edition that says the same with features. Nothing here asks the
Protobuf library about a schema or a message, so that it shares no mistake with what is tested.
"""

from __future__ import annotations

import base64
import json
import random
import struct
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from google.protobuf import descriptor_pb2 as d

VARINTS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum")
FIXED32 = ("fixed32", "sfixed32", "float")
FIXED64 = ("fixed64", "sfixed64", "double")
SCALARS = (*VARINTS[:-1], *FIXED32, *FIXED64, "string", "bytes")
KEYS = tuple(kind for kind in SCALARS if kind not in ("float", "double", "bytes"))
SPARK = {
    "bool": "boolean", "float": "float", "double": "double", "string": "string", "bytes": "binary", "enum": "string",
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), "bigint"),
    **dict.fromkeys(("uint64", "fixed64"), "decimal(20,0)"),
}  # fmt: skip
EDGES = [0, 1, 2, 5, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
TEXTS = ["", "a", "größe", "日本 🙂", '"\\/\n\0', "x" * 200, "1.5", "null"]
FLOATS = (0.0, -0.0, 1.5, 0.1, float("nan"), float("inf"), -float("inf"))
GOOGLE = "google.protobuf."


@dataclass
class Enum:
    """An enum; numbers may have several names."""

    name: str
    values: list[tuple[str, int]]


@dataclass
class Field:
    """A field. `kind` is a scalar's name, enum, message or group; of a map that of its values."""

    name: str
    number: int
    kind: str
    label: str
    """implicit, optional, required or repeated; member for a member of a oneof."""
    key: str = ""
    """The kind of a map's keys."""
    enum: Enum | None = None
    message: Message | None = None
    packed: bool | None = None
    known: bool = False
    """Only numbers that the enum has are written."""
    default: str = ""

    @property
    def many(self) -> bool:
        return self.label == "repeated"


@dataclass
class Message:
    """A message. One whose name is Google's is in Google's files."""

    name: str
    fields: list[Field] = dataclass_field(default_factory=list)
    within: Message | None = None


def well_known() -> dict[str, Message]:
    """Google's own types that the JSON mapping treats in a way of their own."""
    kinds = {"Bool": "bool", "Int32": "int32", "Int64": "int64", "UInt32": "uint32", "UInt64": "uint64"}
    kinds |= {"Float": "float", "Double": "double", "String": "string", "Bytes": "bytes"}
    found = {f"{kind}Value": [Field("value", 1, of, "implicit")] for kind, of in kinds.items()}
    for name in ("Timestamp", "Duration"):
        found[name] = [Field("seconds", 1, "int64", "implicit"), Field("nanos", 2, "int32", "implicit")]
    found |= {"FieldMask": [Field("paths", 1, "string", "repeated")], "Empty": []}
    messages = {name: Message(GOOGLE + name, fields) for name, fields in found.items()}
    a_struct, a_list = Message(GOOGLE + "Struct"), Message(GOOGLE + "ListValue")
    null = Enum(GOOGLE + "NullValue", [("NULL_VALUE", 0)])
    a_value = Message(GOOGLE + "Value", [
        Field("null_value", 1, "enum", "member", enum=null), Field("number_value", 2, "double", "member"),
        Field("string_value", 3, "string", "member"), Field("bool_value", 4, "bool", "member"),
        Field("struct_value", 5, "message", "member", message=a_struct),
        Field("list_value", 6, "message", "member", message=a_list),
    ])  # fmt: skip
    a_struct.fields = [Field("fields", 1, "message", "repeated", key="string", message=a_value)]
    a_list.fields = [Field("values", 1, "message", "repeated", message=a_value)]
    return messages | {"Struct": a_struct, "Value": a_value, "ListValue": a_list}


KNOWN = well_known()
JSON_VALUES = ("Struct", "Value", "ListValue")
FILES = ("duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


@dataclass
class Schema:
    """A file of messages, the first of which is a table's."""

    proto3: bool
    messages: list[Message]
    enums: list[Enum]

    @property
    def root(self) -> Message:
        return self.messages[0]


# ---- schemas


def schema_of(chance: random.Random) -> Schema:
    """Make a schema up."""
    proto3 = chance.random() < 0.5
    enums = []
    for place in range(2):
        numbers = [0, *chance.sample([1, 2, 7, -1, 2**31 - 1, -(2**31)], chance.randrange(4))]
        numbers += chance.choices(numbers, k=chance.randrange(3))
        enums.append(Enum(f"gen.E{place}", [(f"E{place}_{n}", number) for n, number in enumerate(numbers)]))
    messages = [Message(f"gen.M{place}") for place in range(chance.randrange(1, 5))]
    for message in messages[1:]:
        if chance.random() < 0.3:
            message.within = messages[0]
            message.name = message.name.replace("gen.", "gen.M0.")
    for message in messages:
        count = chance.choice((0, 1, 3, 6)) if message is not messages[0] else chance.choice((0, 4, 8, 12))
        numbers = chance.sample([*range(1, 16), 16, 100, 2047, 2048, 18_999, 20_000, 2**29 - 1], count)
        message.fields = [_field(chance, proto3, number, message, messages, enums) for number in numbers]
    return Schema(proto3, messages, enums)


def _field(
    chance: random.Random, proto3: bool, number: int, owner: Message, messages: list[Message], enums: list[Enum]
) -> Field:
    name = chance.choice((f"f{number}", f"a_long_{number}", f"camelCase{number}", f"Upper{number}"))
    labels = ["implicit", "optional"] if proto3 else ["optional"] * 9 + ["required"]
    made = Field(name, number, chance.choice(SCALARS), chance.choice([*labels, "member", "repeated", "repeated"]))
    if chance.random() < 0.15:
        made.kind, made.enum = "enum", chance.choice(enums)
    elif chance.random() < 0.4:
        made.kind = "message"
        made.message = chance.choice(messages) if chance.random() < 0.6 else chance.choice(list(KNOWN.values()))
    if made.label == "repeated" and chance.random() < 0.4:
        made.key = chance.choice(KEYS)
        # Of a map's entry with another number of a closed enum Java's DynamicMessage makes one with the default, unlike
        # Java's own classes and all other readers, to which it is an unknown field.
        made.known = not proto3
    elif not proto3 and made.message in messages and made.label != "member" and chance.random() < 0.3:
        made.kind, made.name = "group", f"g{number}"
        inner = [Field("x", 1, "sint32", "optional"), Field("y", 2, "message", "optional", message=owner)]
        made.message = Message(f"{owner.name}.G{number}", inner)
    if made.kind == "message" and made.label == "implicit":
        made.label = "optional"
    if made.label == "repeated" and not made.key and made.kind not in ("string", "bytes", "message", "group"):
        made.packed = chance.choice((None, True, False))
    if not proto3 and made.label == "optional" and made.kind in ("int32", "double", "string"):
        made.default = chance.choice(("", "7"))
    return made


def file_of(schema: Schema, *, edition: bool) -> d.FileDescriptorProto:
    """Describe a schema as protoc does; `edition` says the same in edition 2023."""
    file = d.FileDescriptorProto(name="gen.proto", package="gen")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in FILES)
    if edition:
        file.syntax, file.edition = "editions", d.EDITION_2023
        if schema.proto3:
            file.options.features.field_presence = d.FeatureSet.IMPLICIT
        else:
            file.options.features.enum_type = d.FeatureSet.CLOSED
            file.options.features.repeated_field_encoding = d.FeatureSet.EXPANDED
            file.options.features.utf8_validation = d.FeatureSet.NONE
    elif schema.proto3:
        file.syntax = "proto3"
    for enum in schema.enums:
        described = file.enum_type.add(name=enum.name.removeprefix("gen."))
        for name, number in enum.values:
            described.value.add(name=name, number=number)
        if len({number for _, number in enum.values}) < len(enum.values):
            described.options.allow_alias = True
    described_messages = {
        id(message): d.DescriptorProto(name=message.name.rpartition(".")[2]) for message in schema.messages
    }
    for message in schema.messages:
        _describe(described_messages[id(message)], message, schema.proto3, edition)
    for message in schema.messages:
        if message.within is not None:
            described_messages[id(message.within)].nested_type.append(described_messages[id(message)])
    file.message_type.extend(described_messages[id(message)] for message in schema.messages if message.within is None)
    return file


def _describe(into: d.DescriptorProto, message: Message, proto3: bool, edition: bool) -> None:
    if any(field.label == "member" for field in message.fields):
        into.oneof_decl.add(name="either")
    for field in message.fields:
        described = into.field.add(name=field.name, number=field.number, json_name=f"json{field.number}")
        if field.key:
            entry = into.nested_type.add(name=f"{field.name.replace('_', '').capitalize()}Entry")
            entry.options.map_entry = True
            _type(entry.field.add(name="key", number=1, label="LABEL_OPTIONAL"), Field("", 0, field.key, ""))
            _type(entry.field.add(name="value", number=2, label="LABEL_OPTIONAL"), field)
            described.type, described.type_name = d.FieldDescriptorProto.TYPE_MESSAGE, f".{message.name}.{entry.name}"
        else:
            _type(described, field)
        described.label = d.FieldDescriptorProto.LABEL_REPEATED if field.many else d.FieldDescriptorProto.LABEL_OPTIONAL
        if field.label == "member":
            described.oneof_index = 0
        if field.label == "required":
            if edition:
                described.options.features.field_presence = d.FeatureSet.LEGACY_REQUIRED
            else:
                described.label = d.FieldDescriptorProto.LABEL_REQUIRED
        if field.packed is not None:
            if edition:
                encoding = d.FeatureSet.PACKED if field.packed else d.FeatureSet.EXPANDED
                described.options.features.repeated_field_encoding = encoding
            else:
                described.options.packed = field.packed
        if field.default:
            described.default_value = field.default
        if field.kind == "group":
            assert field.message is not None
            group = into.nested_type.add(name=field.message.name.rpartition(".")[2])
            _describe(group, field.message, proto3, edition)
            if edition:
                described.type = d.FieldDescriptorProto.TYPE_MESSAGE
                described.options.features.message_encoding = d.FeatureSet.DELIMITED
        if proto3 and field.label == "optional" and field.kind != "message":
            if edition:
                described.options.features.field_presence = d.FeatureSet.EXPLICIT
            else:
                described.proto3_optional = True
                described.oneof_index = len(into.oneof_decl)
                into.oneof_decl.add(name=f"_{field.name}")


def _type(into: d.FieldDescriptorProto, of: Field) -> None:
    into.type = d.FieldDescriptorProto.Type.Value(f"TYPE_{of.kind.upper()}")
    if of.enum is not None:
        into.type_name = f".{of.enum.name}"
    if of.message is not None:
        into.type_name = f".{of.message.name}"


# ---- messages on the wire


def varint(number: int, extra: int = 0) -> bytes:
    """A number as a varint, with some bytes more than it needs."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    if extra:
        found.append(number | 128)
        return bytes(found) + b"\x80" * (extra - 1) + b"\0"
    return bytes(found + bytes([number]))


def payload_of(chance: random.Random, message: Message, depth: int = 0) -> bytes:
    """Make up a message: fields in any order and any number, packed or not, with unknown and ill-typed ones."""
    records = []
    for field in message.fields:
        if chance.random() < (0.75 if field.label == "required" or depth < 2 else 0.35) - 0.1 * depth:
            records += [_record(chance, field, depth) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    if chance.random() < 0.1:
        number = chance.choice([field.number for field in message.fields] or [3])
        unknown = [b"\xf2\x7f\x02ab", tag(number, 5) + b"abcd", tag(number, 0) + b"\7", b"\xf3\x7f\x08\1\xf4\x7f"]
        records.append(chance.choice(unknown))
    chance.shuffle(records)
    return b"".join(records)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def _record(chance: random.Random, field: Field, depth: int) -> bytes:
    if field.key:
        parts = [_one(chance, Field("", 1, field.key, ""), 1, depth), _one(chance, field, 2, depth)]
        inner = b"".join(part for part in parts if chance.random() < 0.85)
        return tag(field.number, 2) + varint(len(inner)) + inner
    packable = field.kind in (*VARINTS, *FIXED32, *FIXED64)
    if field.many and packable and chance.random() < 0.5:
        inner = b"".join(_scalar(chance, field) for _ in range(chance.randrange(4)))
        return tag(field.number, 2) + varint(len(inner)) + inner
    return _one(chance, field, field.number, depth)


def _one(chance: random.Random, field: Field, number: int, depth: int) -> bytes:
    if field.kind in VARINTS:
        return tag(number, 0) + _scalar(chance, field)
    if field.kind in FIXED32:
        return tag(number, 5) + _scalar(chance, field)
    if field.kind in FIXED64:
        return tag(number, 1) + _scalar(chance, field)
    if field.message is not None:
        inner = _known(chance, field.message) or payload_of(chance, field.message, depth + 1)
        if field.kind == "group":
            return tag(number, 3) + inner + tag(number, 4)
    else:
        inner = _scalar(chance, field)
    return tag(number, 2) + varint(len(inner)) + inner


def _known(chance: random.Random, message: Message) -> bytes:
    """Values of Google's types that are mostly in their ranges."""
    if message.name == GOOGLE + "Timestamp":
        seconds = chance.choice((0, -1, 1_700_000_000, -62_135_596_800, 253_402_300_799, 253_402_300_800))
        nanos = chance.choice((0, 1000, 999_999_000, 123_456_789, 10**9))
    elif message.name == GOOGLE + "Duration":
        sign = chance.choice((1, -1))
        seconds, nanos = sign * chance.choice((0, 1, 315_576_000_000)), sign * chance.choice((0, 1000, 999_999_999, 5))
    elif message.name == GOOGLE + "FieldMask":
        return b"".join(b"\x0a" + varint(len(path)) + path for path in chance.choices((b"a", b"b.c", b"xyz"), k=2))
    else:
        return b""
    return b"\x08" + varint(seconds % 2**64) + b"\x10" + varint(nanos % 2**64)


def _scalar(chance: random.Random, field: Field) -> bytes:
    if field.kind == "enum":
        assert field.enum is not None
        numbers = [number for _, number in field.enum.values]
        number = chance.choice(numbers if field.known else [*numbers, *numbers, 3, 2**40 + 3])
        return varint(number % 2**64)
    if field.kind in VARINTS:
        number = chance.choice((*EDGES, chance.getrandbits(64), chance.getrandbits(20)))
        spare = max(9 - max(1, -(-number.bit_length() // 7)), 0)
        return varint(number, chance.randrange(spare + 1) if chance.random() < 0.1 else 0)
    if field.kind == "float":
        return struct.pack("<f", chance.choice((*FLOATS, -3.4e38, 1e-45, chance.random())))
    if field.kind == "double":
        return struct.pack("<d", chance.choice((*FLOATS, 1e300, 5e-324, 1e15, chance.random())))
    if field.kind in FIXED32:
        return struct.pack("<I", chance.choice(EDGES) % 2**32)
    if field.kind in FIXED64:
        return struct.pack("<Q", chance.choice(EDGES))
    if field.kind == "string" and chance.random() < 0.02:
        return chance.choice((b"\xff", b"\xed\xa0\x80", b"a\xc3"))
    if field.kind == "string":
        return chance.choice(TEXTS).encode()
    return chance.choice((b"", b"\0\xff", b"abc"))


# ---- columns


def type_of(message: Message, opened: tuple[str, ...] = ()) -> str:
    """The type that a message's columns make together, as docs/formats/protobuf.md says."""
    opened = (*opened, message.name)
    return f"struct<{','.join(f'{field.name}:{_column_type(field, opened)}' for field in message.fields)}>"


def _column_type(field: Field, opened: tuple[str, ...]) -> str:
    one = SPARK.get(field.kind) or _message_type(field, opened)
    if field.key:
        return f"map<{SPARK[field.key]},{one}>"
    return f"array<{one}>" if field.many else one


def short(message: Message) -> str:
    """The name of one of Google's types, "" for another."""
    return message.name.removeprefix(GOOGLE) if message.name.startswith(GOOGLE) else ""


def is_text(message: Message, opened: tuple[str, ...]) -> bool:
    """Tell whether a message within others is a text of JSON."""
    return short(message) in JSON_VALUES or message.name in opened


def _message_type(field: Field, opened: tuple[str, ...]) -> str:
    assert field.message is not None
    if short(field.message) == "Timestamp":
        return "timestamp"
    if is_text(field.message, opened):
        return "string"
    if short(field.message).endswith("Value"):
        return SPARK[field.message.fields[0].kind]
    return type_of(field.message, opened)


# ---- rows: ours, and what Java's JSON says, made comparable


def ours(message: Message, row: dict[str, Any], opened: tuple[str, ...] = ()) -> dict[str, Any]:
    """A row with floats by their bits and texts of JSON by what they say."""
    opened = (*opened, message.name)
    return {field.name: _our_field(field, row[field.name], opened) for field in message.fields}


def _our_field(field: Field, value: Any, opened: tuple[str, ...]) -> Any:
    if value is None:
        return None
    if field.key:
        return sorted(((key, _our_value(field, one, opened)) for key, one in value), key=repr)
    return [_our_value(field, one, opened) for one in value] if field.many else _our_value(field, value, opened)


def _our_value(field: Field, value: Any, opened: tuple[str, ...]) -> Any:
    if field.message is None:
        return bits(field.kind, value)
    if short(field.message) == "Timestamp":
        return value
    if is_text(field.message, opened):
        return canonical(field, json.loads(value))
    if short(field.message).endswith("Value"):
        return bits(field.message.fields[0].kind, value)
    return ours(field.message, value, opened)


def theirs(message: Message, said: dict[str, Any], opened: tuple[str, ...] = ()) -> dict[str, Any]:
    """The row that a message's JSON stands for."""
    opened = (*opened, message.name)
    return {field.name: _their_field(field, said, opened) for field in message.fields}


def _their_field(field: Field, said: dict[str, Any], opened: tuple[str, ...]) -> Any:
    if field.name not in said:
        if field.many:
            return []
        return bits(field.kind, _nothing(field)) if field.label == "implicit" else None
    value = said[field.name]
    if field.key:
        keys = ((_key(field.key, key), one) for key, one in value.items())
        return sorted(((key, _their_value(field, one, opened)) for key, one in keys), key=repr)
    return [_their_value(field, one, opened) for one in value] if field.many else _their_value(field, value, opened)


def _nothing(field: Field) -> Any:
    if field.enum is not None:
        return next(name for name, number in field.enum.values if number == 0)
    return {"bool": False, "string": "", "bytes": b"", "float": 0.0, "double": 0.0}.get(field.kind, 0)


def _key(kind: str, text: str) -> Any:
    return text if kind == "string" else text == "true" if kind == "bool" else scalar(kind, text)


def _their_value(field: Field, value: Any, opened: tuple[str, ...]) -> Any:
    if field.message is None:
        return scalar(field.kind, value)
    name = short(field.message)
    if name == "Timestamp":
        # More digits than Python's times have are cut off.
        whole, _, fraction = value.removesuffix("Z").partition(".")
        moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
        return moment.replace(microsecond=int(fraction.ljust(6, "0")[:6]))
    if is_text(field.message, opened):
        return canonical(field, value)
    if name.endswith("Value"):
        return scalar(field.message.fields[0].kind, value)
    return theirs(field.message, _plain(name, value), opened)


def _plain(name: str, value: Any) -> Any:
    """The fields of a Duration or FieldMask, which have a text in JSON."""
    if name == "Duration":
        exact = Decimal(value.removesuffix("s"))
        seconds = int(exact)
        return {"seconds": seconds, "nanos": int((exact - seconds) * 10**9)}
    return {"paths": value.split(",") if value else []} if name == "FieldMask" else value


def scalar(kind: str, value: Any) -> Any:
    """The value of a column that a scalar's JSON stands for."""
    if kind in ("uint64", "fixed64"):
        return Decimal(value)
    if kind in ("float", "double"):
        return bits(kind, float(value))
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "enum":
        return str(value)
    return value if kind in ("string", "bool") else int(value)


def bits(kind: str, value: Any) -> Any:
    """A float by its bits, all that are no numbers alike."""
    if kind not in ("float", "double") or value is None:
        return Decimal(value) if kind in ("uint64", "fixed64") else value
    return "NaN" if value != value else struct.pack("<f" if kind == "float" else "<d", value)


def canonical(field: Field, value: Any) -> Any:
    """JSON of a value with floats by their bits."""
    message = field.message
    if message is None:
        return scalar(field.kind, value) if field.kind in ("float", "double") else value
    name = short(message)
    if name in JSON_VALUES:
        return json.loads(json.dumps(value), parse_int=float)
    if name.endswith("Value"):
        return canonical(message.fields[0], value)
    if name:
        return value
    by_name = {one.name: one for one in message.fields}
    return {key: _canonical_field(by_name[key], found) for key, found in value.items()}


def _canonical_field(field: Field, value: Any) -> Any:
    if field.key:
        return {key: canonical(field, one) for key, one in value.items()}
    return [canonical(field, one) for one in value] if field.many else canonical(field, value)
