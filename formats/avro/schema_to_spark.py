"""Maps an Avro schema text, by this project or any other program, to Spark types.

| Avro | Spark |
|---|---|
| boolean, int, long, float, double, bytes, string | boolean, int, bigint, float, double, binary, string |
| "spark.type" on an int or a string | what it says |
| decimal on bytes or fixed, up to 38 digits | decimal(p, s); binary if larger |
| date; timestamp-millis, -micros; local-timestamp-... | date; timestamp; timestamp_ntz |
| time-millis, time-micros | time(p) with that "spark.type"; else the base type: int, bigint |
| timestamp-nanos | the base type: bigint |
| duration | refused: Spark has no type for months, days and milliseconds together |
| uuid on string or fixed(16), enum | string |
| fixed | binary |
| array, map, record | array, map<string, v>, struct |
| [null, T], [T, null] | T, nullable |
| [int, long]; [float, double] | bigint; double |
| a record within itself | string, the JSON text of the inner record |
| other unions | struct of nullable member0, member1, ..., one of which is set |
| a root that is not a record | one column `value` |
"""

from __future__ import annotations

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidSchemaError

from ..core.spark_types import LARGEST_SCHEMA, SPARK_MAP, SPARK_METADATA, SPARK_TYPE, limit_depth, parse_spark_type
from ..core.spark_visitor import join_path
from . import schema_model as avro

PRIMITIVES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
}
"""The Spark types of Avro's primitive types."""

_LOGICAL: dict[str, T.DataType] = {
    "date": T.DateType(),
    "timestamp-millis": T.TimestampType(),
    "timestamp-micros": T.TimestampType(),
    "local-timestamp-millis": T.TimestampNTZType(),
    "local-timestamp-micros": T.TimestampNTZType(),
    "uuid": T.StringType(),
}


def convert_avro_to_spark(text: str) -> T.StructType:
    """Return the columns for a schema. Raises InvalidSchemaError if it is not Avro's or a part fits no column."""
    return make_spark_struct(avro.parse_avro(text))


def make_spark_struct(root: avro.Node) -> T.StructType:
    """Return the columns of a parsed schema, as `convert_avro_to_spark` does."""
    record = root if isinstance(root, avro.Record) else avro.enclose(root)
    return limit_depth(lambda: _AvroToSpark().record(record, ""))


def list_targets(node: avro.Node) -> list[avro.Node]:
    """Return the types that a column of this type may hold other than null: one type, or the members of a struct."""
    branches = avro.split_null(node)[0]
    names = {branch.name for branch in branches if isinstance(branch, avro.Primitive) and not branch.logical}
    if len(branches) == 2 and names in ({"int", "long"}, {"float", "double"}):
        return [avro.Primitive("long" if "long" in names else "double")]
    return branches


class _AvroToSpark:
    """Visits every type, and remembers the records around it."""

    def __init__(self) -> None:
        self._inside: list[avro.Record] = []
        self._count = 0

    def visit(self, node: avro.Node, path: str) -> tuple[T.DataType, bool]:
        """Return the Spark type, and whether it may be null."""
        self._count += 1
        if self._count > LARGEST_SCHEMA:
            raise InvalidSchemaError(f"the Avro schema stands for more than {LARGEST_SCHEMA} columns")
        nullable = avro.split_null(node)[1]
        branches = list_targets(node)
        if len(branches) == 1:
            return self._single(branches[0], path), nullable
        if not branches:
            raise InvalidSchemaError(f"column '{path}' can only be null in the Avro schema: no type fits that")
        members = [
            T.StructField(f"member{number}", self._single(branch, join_path(path, f"member{number}")))
            for number, branch in enumerate(branches)
        ]
        return T.StructType(members), nullable

    def _single(self, node: avro.Node, path: str) -> T.DataType:
        if isinstance(node, avro.Record):
            if any(node is outer for outer in self._inside):
                return T.StringType()  # of JSON, because Spark has no recursive types
            return self.record(node, path)
        if isinstance(node, avro.Array):
            element, nullable = self.visit(node.items, join_path(path, "element"))
            if node.attributes.get(SPARK_MAP) is True and isinstance(element, T.StructType) and len(element) == 2:
                key, entry = element.fields
                return T.MapType(key.dataType, entry.dataType, entry.nullable)
            return T.ArrayType(element, nullable)
        if isinstance(node, avro.Map):
            value, nullable = self.visit(node.values, join_path(path, "value"))
            return T.MapType(T.StringType(), value, nullable)
        if isinstance(node, avro.Enum):
            return T.StringType()
        assert isinstance(node, (avro.Primitive, avro.Fixed))
        if node.logical == "decimal":
            return T.DecimalType(node.precision, node.scale)
        own = parse_spark_type(node.attributes.get(SPARK_TYPE))
        if node.logical in avro.TIMES_OF_DAY and own is not None:
            return own
        if node.logical is not None:
            return _LOGICAL[node.logical]
        if isinstance(node, avro.Fixed):
            if node.attributes.get("logicalType") == "duration":
                raise InvalidSchemaError(
                    f"column '{path}' is an Avro duration: months, days and milliseconds together, for which Spark has "
                    "no type"
                )
            return T.BinaryType()
        if node.name == "string" and isinstance(own, (T.StringType, T.CharType, T.VarcharType)):
            return own
        if node.name == "int" and own is not None and own.simpleString() in ("tinyint", "smallint"):
            return own
        return PRIMITIVES[node.name]

    def record(self, record: avro.Record, path: str) -> T.StructType:
        self._inside.append(record)
        fields = []
        for field in record.fields:
            data_type, nullable = self.visit(field.type, join_path(path, field.name))
            own = field.attributes.get(SPARK_METADATA)
            metadata = dict(own) if isinstance(own, dict) else {}
            doc = field.attributes.get("doc")
            if isinstance(doc, str):
                metadata["comment"] = doc
            fields.append(T.StructField(field.name, data_type, nullable, metadata))
        self._inside.pop()
        return T.StructType(fields)
