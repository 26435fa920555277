"""The Protobuf format: one message per event, as the registry's serializers for Protobuf write it.

A message is read by the table's schema, fields by their numbers, as Protobuf's own readers do: fields that the writer
did not know have their defaults, and fields that the table does not know are ignored. A writer's schema in which a
number has another kind of value makes its events bad. The protobuf library reads messages one by one.

An empty event is a message without any field set. Bytes that follow a message cannot be distinguished from fields,
except NULs, which cannot begin a field: after the registry's header they are padding, because writers send their whole
buffer. An event without a header is read as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, UnsupportedOperationError

from ..core.arrow_types import replace_char_types
from ..core.batches import BatchDecoder, PayloadReader, read_each
from ..core.columns import Problems
from ..core.events import EventBuffer
from ..core.format import Decoder, Encoder, Layout, Resolve, WriterSchema
from ..core.framing import Undecodable
from ..core.spark_types import fit_rows
from ..core.writing import BINARY, BatchEncoder, make_constant, make_row_error
from .message_types import find_length_without_padding, find_message_class, read_message_name, read_message_type
from .schema_to_spark import convert_protobuf_to_spark, has_json_texts, is_repeated
from .values import NOT_UTF_8, find_field, iterate_missing_fields, make_converters

_DEEPEST = 100
"""Most levels of nested messages for Protobuf's readers, in this library and in Java."""

_F = FieldDescriptor
_KINDS = (
    ("a whole number", (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM)),
    ("a zigzag number", (_F.TYPE_SINT32, _F.TYPE_SINT64)),
    ("a fixed number of 32 bits", (_F.TYPE_FIXED32, _F.TYPE_SFIXED32)),
    ("a fixed number of 64 bits", (_F.TYPE_FIXED64, _F.TYPE_SFIXED64)),
    ("a float", (_F.TYPE_FLOAT,)),
    ("a double", (_F.TYPE_DOUBLE,)),
    ("text or bytes", (_F.TYPE_STRING, _F.TYPE_BYTES)),
    ("a message", (_F.TYPE_MESSAGE,)),
    ("a group", (_F.TYPE_GROUP,)),
)
_KIND_OF = {one: kind for kind, types in _KINDS for one in types}
"""Types whose values look alike on the wire."""


class ProtobufFormat:
    """The format of events that are Protobuf messages, with schemas in the registry."""

    name = "protobuf"
    registry_format = "Protobuf"
    changes = False

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        raise UnsupportedOperationError(
            "a Protobuf schema cannot be made from columns, because they have no field numbers; let the application "
            "that owns the schema register it, and read and write its stream as a table, or use format avro or json"
        )

    def spark_schema(self, schema_text: str) -> StructType:
        return convert_protobuf_to_spark(schema_text)

    def can_be_missing(self, schema_text: str, column: str) -> bool:
        """Return False: in messages without it, a field may have the default of its type."""
        return False

    def type_name(self, schema_text: str) -> str:
        return read_message_name(schema_text)

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        return ProtobufDecoder(layout.columns, _require_schema_text(layout), resolve)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        return ProtobufEncoder(layout.columns, _require_schema_text(layout), encoding_id, codec)


def _require_schema_text(layout: Layout) -> str:
    if not layout.schema_text:
        raise InvalidSchemaError(
            "Protobuf events can only be read and written with a schema of the registry; leave 'framing' and columns "
            "out"
        )
    return layout.schema_text


class ProtobufDecoder(BatchDecoder):
    """Reads messages of any version of the table's type."""

    format_name = "Protobuf"

    def __init__(self, reader_schema: StructType, table_schema_text: str, resolve: Resolve | None) -> None:
        super().__init__(reader_schema, resolve)
        self._message = read_message_type(table_schema_text)
        struct = replace_char_types(reader_schema)
        self._reader = _MessageReader(self._message, struct, self.schema, framed=resolve is not None)

    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        if writer is not None:
            written_type = read_message_type(writer.schema_text)
            if written_type.full_name != self._message.full_name:
                raise InvalidSchemaError(
                    f"it is of type '{written_type.full_name}', but the table is of type '{self._message.full_name}'"
                )
            _check_kinds(written_type, self._message, set())
        return self._reader


def _check_kinds(writer: Descriptor, table: Descriptor, seen: set[tuple[str, str]]) -> None:
    """Raise InvalidSchemaError for a field whose values the table's field would misread."""
    if (writer.full_name, table.full_name) in seen:
        return
    seen.add((writer.full_name, table.full_name))
    for field in table.fields:
        other = writer.fields_by_number.get(field.number)
        if other is None:
            continue
        if _KIND_OF[field.type] != _KIND_OF[other.type]:
            raise InvalidSchemaError(
                f"its field {field.number} ('{other.full_name}') is {_KIND_OF[other.type]}, but the table's "
                f"('{field.full_name}') is {_KIND_OF[field.type]}"
            )
        if (refused := _explain_change(other, field)) is not None:
            raise InvalidSchemaError(f"its field {field.number} ('{other.full_name}') is {refused}")
        if field.message_type is not None and other.message_type is not None:
            _check_kinds(other.message_type, field.message_type, seen)


_RANGES: dict[int, tuple[int, int]] = {
    _F.TYPE_BOOL: (0, 1),
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_ENUM, _F.TYPE_SINT32, _F.TYPE_SFIXED32), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), (0, (1 << 64) - 1)),
}
"""The range of each numeric type. Readers truncate a number that does not fit the table's type, as a cast in C++ does
(https://protobuf.dev/programming-guides/proto3/#updating)."""


def _explain_change(writer: FieldDescriptor, table: FieldDescriptor) -> str | None:
    """Return why values of a writer's field would change in the table's field; None if they stay the same."""
    if writer.type in (*_RANGES, _F.TYPE_FLOAT, _F.TYPE_DOUBLE) and is_repeated(writer) and not is_repeated(table):
        return f"repeated numbers, but the table's ('{table.full_name}') is a single one"
    theirs, ours = _RANGES.get(writer.type), _RANGES.get(table.type)
    if theirs is None or ours is None or (ours[0] <= theirs[0] and theirs[1] <= ours[1]):
        return None
    return (
        f"of a type with numbers from {theirs[0]} to {theirs[1]}, but the table's ('{table.full_name}') takes those "
        f"from {ours[0]} to {ours[1]}"
    )


class _MessageReader(PayloadReader):
    def __init__(self, message: Descriptor, struct: StructType, schema: pa.Schema, *, framed: bool) -> None:
        self._parse = find_message_class(message).FromString
        self._framed = framed
        self._types = [field.type for field in schema]
        self._getters = [make_converters(find_field(message, column), column.dataType)[0] for column in struct.fields]

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        nothing = [None] * len(self._getters)
        rows = read_each(payloads, self._values, problems, nothing)
        columns = zip(*rows, strict=True) if rows else [()] * len(self._types)
        return [pa.array(list(values), data_type) for values, data_type in zip(columns, self._types, strict=True)]

    def _values(self, payload: bytes) -> list[Any]:
        try:
            message = self._message(payload)
            if not message.IsInitialized():
                raise Undecodable(f"it lacks required fields: {', '.join(iterate_missing_fields(message))}")
            return [get(message) for get in self._getters]
        except DecodeError as error:
            raise Undecodable(_explain_unreadable(error)) from None
        except UnicodeDecodeError:
            # For maps, the library notices this only when their entries are read.
            raise Undecodable(NOT_UTF_8) from None

    def _message(self, payload: bytes) -> Any:
        try:
            return self._parse(payload)
        except DecodeError:
            length = find_length_without_padding(payload) if self._framed else len(payload)
            if length == len(payload):
                raise
        return self._parse(payload[:length])


def _explain_unreadable(error: DecodeError) -> str:
    text = str(error)
    if "depth" in text.lower() or "nesting" in text or "recursion" in text:
        return f"its messages are nested more than {_DEEPEST} levels deep, the limit of Protobuf's readers"
    return f"it is not a message of the table's type ({text})"


class ProtobufEncoder(BatchEncoder):
    """Writes rows as messages. A null leaves its field unset; it is refused if the field cannot be unset."""

    def __init__(self, schema: StructType, schema_text: str, encoding_id: int | None, codec: str) -> None:
        super().__init__(schema, encoding_id, codec)
        message = read_message_type(schema_text)
        table = convert_protobuf_to_spark(schema_text)
        struct = replace_char_types(schema)
        if not table.fields:
            # Spark and Arrow lose the number of rows without columns.
            raise UnsupportedOperationError(
                f"the message '{message.full_name}' has no fields, so no row can be written; its events can be read "
                "and counted"
            )
        fitted = fit_rows(struct, table)
        self._class = find_message_class(message)
        self._has_json_texts = has_json_texts(message)
        self._writers = [
            (
                column.name,
                fitted[column.name].nullable,
                make_converters(find_field(message, column), column.dataType)[1],
            )
            for column in struct.fields
        ]

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        self.to_struct(batch)
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                columns.append(column.to_pylist())
            except OverflowError:
                raise InvalidRowError(
                    f"the rows cannot be written: column '{name}' has a timestamp outside the years 0001 to 9999"
                ) from None
        payloads = [self._make_payload(row, values) for row, values in enumerate(zip(*columns, strict=True))]
        if not payloads:
            return pa.array([], BINARY)
        return self.frame([pa.array(payloads, BINARY), make_constant(b"")], len(payloads))

    def _make_payload(self, row: int, values: Sequence[Any]) -> bytes:
        parts: dict[str, Any] = {}
        for (name, nullable, write), value in zip(self._writers, values, strict=True):
            if value is None:
                if nullable:
                    continue
                raise make_row_error(row, name, "null, but the column is NOT NULL")
            try:
                parts[name] = write(value)
            except (ValueError, TypeError) as error:
                raise make_row_error(row, name, error) from None
        message = self._make_message(row, parts)
        try:
            payload = bytes(message.SerializeToString(deterministic=True))
            if self._has_json_texts:
                # The library writes messages that are too deep for any reader.
                self._class.FromString(payload)
        except (EncodeError, DecodeError) as error:
            reason = _explain_unreadable(error) if isinstance(error, DecodeError) else str(error)
            raise InvalidRowError(f"row {row} of the batch cannot be written: {reason}") from None
        return payload

    def _make_message(self, row: int, parts: dict[str, Any]) -> Message:
        """Return the message with these fields. Raises InvalidRowError naming the one that does not fit."""
        try:
            return self._class(**parts)
        except (ValueError, TypeError, OverflowError) as error:
            for name in parts if len(parts) > 1 else ():
                self._make_message(row, {name: parts[name]})
            raise make_row_error(row, next(iter(parts)), error) from None
