"""What a column of a Spark type shows of a value, by the oracle's word for it: independent of the readers' matrix."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.variant_utils import VariantUtils

from tests.interop.kafka_connect import Meaning

_NAMED = ("io.debezium.", "org.apache.kafka.")
_NANOS = {"ms": 10**6, "us": 10**3, "ns": 1}
_WIDE = Context(prec=200)
_MOMENT = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?Z?")
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?")


class ImpossibleError(Exception):
    """No value of the Spark type means the same."""


def unit_of(semantic: str) -> str:
    """The unit of the numbers of a semantic type, by its name."""
    name = semantic.rpartition(".")[2]
    return "us" if name.startswith("Micro") else "ns" if name.startswith("Nano") else "ms"


def shown(meaning: Meaning, data_type: t.DataType, schema: Mapping[str, Any], written: Any) -> Any:
    """The value of a column. `schema`: Connect's, as JSON; `written`: what the event has. Raises ImpossibleError."""
    form, value = meaning.form, meaning.value
    if form == "null":
        return None
    semantic = schema.get("name") or ""
    if form == "decimal" and schema.get("type") == "double":
        form, value = "float", float(value)  # by `decimal.handling.mode`
    if form in ("text", "bytes") and schema.get("type") == "string":
        # By `binary.handling.mode` it may be bytes; nothing says so.
        form, value = "text", written
        if isinstance(data_type, t.MapType):
            return _object(written, data_type)
    if isinstance(data_type, t.StringType):
        return "text", meaning, semantic, written
    if isinstance(data_type, t.ArrayType) and form == "list":
        pairs = zip(value, written, strict=True)
        return [shown(each, data_type.elementType, schema["items"], part) for each, part in pairs]
    if isinstance(data_type, t.MapType) and form == "map":
        return _map(value, data_type, schema, written)
    if isinstance(data_type, t.StructType) and form in ("map", "decimal", "special") and type(written) is dict:
        return dict.fromkeys(data_type.names)  # the test's fields are not in it
    if isinstance(data_type, t.StructType) and form == "struct" and type(written) is dict:
        fields = {each["field"]: each for each in schema["fields"]}
        return {
            each.name: shown(value[each.name], each.dataType, fields[each.name], written[each.name])
            if each.name in value
            else None
            for each in data_type.fields
        }
    if isinstance(data_type, t.IntegralType) and form in ("date", "timestamp", "infinity") and type(written) is int:
        # Days and units since 1970 are themselves whole numbers.
        return _whole("integer", written, data_type, semantic)
    if isinstance(data_type, t.VariantType):
        return "variant", _variant(schema, written)
    for kinds, make in _SCALARS:
        if isinstance(data_type, kinds):
            return make(form, value, data_type, semantic)
    raise ImpossibleError


def _variant(schema: Mapping[str, Any], written: Any) -> Any:
    """The JSON value of a VARIANT. Values that stand for something else, such as dates, have none."""
    kind, name = schema["type"], (schema.get("name") or "").rpartition(".")[2]
    if kind in ("float", "double", "bytes") or name == "VariableScaleDecimal":
        raise ImpossibleError
    if kind not in ("array", "map", "struct") and (schema.get("name") or "").startswith(_NAMED) and name != "Json":
        raise ImpossibleError
    try:
        value = json.loads(written) if isinstance(written, str) else written
        json.dumps(json.loads(json.dumps(value), parse_int=float), allow_nan=False)  # no number is infinite as a double
    except ValueError:
        raise ImpossibleError from None
    return value


def _object(written: str, data_type: t.MapType) -> Any:
    """The map that a text with a JSON object is."""
    try:
        found = json.loads(written)
    except ValueError:
        raise ImpossibleError from None
    if not isinstance(found, dict) or not isinstance(data_type.valueType, t.StringType):
        raise ImpossibleError
    texts = [(key, None if value is None else json.dumps(value)) for key, value in found.items()]
    return "map", [
        (("text", Meaning("text", key), "", key), ("text", Meaning("text", value), "", found[key]))
        for key, value in texts
    ]


def _map(entries: Any, data_type: t.MapType, schema: Mapping[str, Any], written: Any) -> Any:
    pairs = list(written.items()) if isinstance(written, dict) else written
    found = []
    # The event has the entries in the same order, that of a LinkedHashMap.
    for (key, each), (written_key, part) in zip(entries, pairs, strict=True):
        name = shown(key, data_type.keyType, schema["keys"], written_key)
        if name is None:
            raise ImpossibleError
        found.append((name, shown(each, data_type.valueType, schema["values"], part)))
    if len({str(name) for name, _ in found}) != len(entries):
        raise ImpossibleError
    return "map", found


def same(found: Any, wanted: Any) -> bool:
    """Whether what was read is what is wanted. Texts may be written in several ways."""
    if isinstance(wanted, tuple) and wanted and wanted[0] == "text":
        return isinstance(found, str) and _same_text(found, *wanted[1:])
    if isinstance(wanted, tuple) and wanted and wanted[0] == "bits":
        return isinstance(found, bytes) and int.from_bytes(found, "little") == wanted[1]
    if isinstance(wanted, tuple) and wanted and wanted[0] == "double":
        # JSON has the fewest digits that a float of 32 bits is known by; a double is next to these.
        return isinstance(found, float) and (found == wanted[1] or struct_float(repr(found)) == wanted[1])
    if isinstance(wanted, tuple) and wanted and wanted[0] == "variant":
        read = None if found is None else json.loads(VariantUtils.to_json(found["value"], found["metadata"]))
        return _equal(read, wanted[1])
    if isinstance(wanted, tuple) and wanted and wanted[0] == "near":
        return isinstance(found, Decimal) and _near(found, *wanted[1:])
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, tuple) and wanted and wanted[0] == "map":
        # Debezium's sparse vectors are of a HashMap, in no order.
        return (
            isinstance(found, list)
            and len(found) == len(wanted[1])
            and all(any(same(key, name) and same(value, other) for name, other in wanted[1]) for key, value in found)
        )
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, float) and isinstance(found, float) and wanted != wanted:
        return found != found
    return type(found) is type(wanted) and bool(found == wanted)


def _near(found: Decimal, value: float, step: Decimal) -> bool:
    """Whether a decimal is rounded from a double, or from the fewest digits that a float of 32 bits is known by."""
    distance = abs(Fraction(found) - Fraction(value))
    return (
        distance <= Fraction(step) / 2 + Fraction(abs(value)) / 10**7
        if value == struct_float(repr(value))
        else (distance <= Fraction(step) / 2 + Fraction(abs(value)) / 10**15)
    )


def _same_text(found: str, meaning: Meaning, semantic: str, written: Any) -> bool:
    form, value = meaning.form, meaning.value
    if found == written:
        return True
    if form in ("date", "timestamp", "instant"):
        parsed = moment(found)
        return parsed is not None and parsed == moment(value)
    if form == "infinity" and semantic.endswith((".Date", ".Timestamp", ".MicroTimestamp")):
        return found == value or found.startswith("-5877611-06-2")
    if form == "time":
        return clock(found) == clock(value)
    if form in ("decimal", "integer", "year"):
        return found == str(value) or (type(written) in (int, float) and Decimal(found) == Decimal(str(value)))
    if form == "float":
        return float(found) == value or value != value or float(struct_float(found)) == value
    if form == "bytes" and not isinstance(written, str):
        return False
    if form == "boolean":
        return found == ("true" if value else "false")
    if isinstance(written, str):
        return found == written
    return _equal(json.loads(found), written)


def struct_float(text: str) -> float:
    """The float of 32 bits that is next to a text; an infinite one beyond the largest."""
    number = float(text)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _equal(found: Any, written: Any) -> bool:
    """Whether two values of JSON are the same, with floats of 32 bits in any digits."""
    if isinstance(written, list):
        return isinstance(found, list) and len(found) == len(written) and all(map(_equal, found, written))
    if isinstance(written, dict):
        return (
            isinstance(found, dict)
            and found.keys() == written.keys()
            and all(_equal(found[key], written[key]) for key in written)
        )
    if isinstance(found, float) and isinstance(written, float) and found != written:
        return not math.isinf(struct_float(repr(found))) and struct_float(repr(found)) == struct_float(repr(written))
    return bool(found == written)


def moment(text: str) -> tuple[int, ...] | None:
    """Year, month, day, hour, minute, second and nanosecond of a text of ISO 8601."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups()
    return (*(int(each or 0) for each in parts), int((fraction or "").ljust(9, "0")))


def clock(text: str) -> tuple[int, ...] | None:
    """Hour, minute, second and nanosecond of a time of day; an offset of zero counts as none."""
    match = _CLOCK.fullmatch(text.removesuffix("Z"))
    if match is None:
        return None
    *parts, fraction = match.groups()
    return (*(int(each or 0) for each in parts), int((fraction or "").ljust(9, "0")))


def _boolean(form: str, value: Any, data_type: t.DataType, semantic: str) -> bool:
    if form == "boolean" or (form == "integer" and value in (0, 1)):
        return bool(value)
    raise ImpossibleError


def _number(form: str, value: Any, semantic: str) -> Decimal | float:
    if form in ("integer", "year"):
        return Decimal(value)
    if form == "duration":
        return Decimal(value) / _NANOS[unit_of(semantic)]
    if form == "float":
        return value if value != value or value in (float("inf"), float("-inf")) else Decimal(value)
    if form in ("decimal", "text"):
        try:
            return Decimal(value)
        except InvalidOperation:
            raise ImpossibleError from None
    if form == "special":
        return float(value.replace("POSITIVE_", "").replace("NEGATIVE_", "-").replace("INFINITY", "inf"))
    if form == "time":
        hour, minute, second, nano = clock(value) or ()
        return Decimal(((hour * 60 + minute) * 60 + second) * 10**9 + nano) / _NANOS[unit_of(semantic)]
    raise ImpossibleError


def _whole(form: str, value: Any, data_type: t.DataType, semantic: str) -> int:
    number = _number(form, value, semantic)
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[data_type.simpleString()]
    if isinstance(number, float) or number != int(number) or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ImpossibleError
    return int(number)


def _float(form: str, value: Any, data_type: t.DataType, semantic: str) -> Any:
    number = float(_number(form, value, semantic))
    if form == "float" and isinstance(data_type, t.DoubleType) and math.isfinite(number):
        return "double", number
    if isinstance(data_type, t.FloatType) and number == number and abs(number) != float("inf"):
        single = struct_float(repr(number))
        if math.isinf(single):
            raise ImpossibleError
        return single
    return number


def _decimal(form: str, value: Any, data_type: t.DecimalType, semantic: str) -> Any:
    number = _number(form, value, semantic)
    if isinstance(number, float):
        return None
    step = Decimal((0, (1,), -data_type.scale))
    if number.copy_abs() >= Decimal(10) ** 40:
        raise ImpossibleError
    found = (Decimal(repr(value)) if form == "float" else number).quantize(step, ROUND_HALF_UP, _WIDE)
    if found.copy_abs() >= Decimal(10) ** (data_type.precision - data_type.scale):
        raise ImpossibleError
    if form == "float":
        return "near", value, step
    if found != number:
        raise ImpossibleError
    return found


def _bytes(form: str, value: Any, data_type: t.DataType, semantic: str) -> Any:
    if form == "bytes":
        return bytes(value)
    if form == "bits":
        return "bits", int(value, 2)  # Java's BitSet leaves out leading zeros
    raise ImpossibleError


def _moment(form: str, value: Any) -> tuple[datetime, int] | None:
    """The microsecond that a time is in, and what is left in nanoseconds; None outside the years 0001 to 9999."""
    if form == "infinity":
        return None
    parsed = moment(value) if form in ("date", "timestamp", "instant", "text") else None
    if parsed is None:
        raise ImpossibleError
    year, month, day, hour, minute, second, nano = parsed
    if not 1 <= year <= 9999:
        return None
    return datetime(year, month, day, hour, minute, second, nano // 1000), nano % 1000


def _date(form: str, value: Any, data_type: t.DataType, semantic: str) -> date | None:
    found = _moment(form, value)
    if found is None:
        return None
    whole, rest = found
    if rest or whole != datetime.combine(whole.date(), datetime.min.time()):
        raise ImpossibleError
    return whole.date()


def _timestamp(form: str, value: Any, data_type: t.DataType, semantic: str) -> datetime | None:
    if form == "date":
        raise ImpossibleError  # not done, though midnight would do
    found = _moment(form, value)
    if found is None:
        return None
    return found[0] if isinstance(data_type, t.TimestampNTZType) else found[0].replace(tzinfo=UTC)


def _time(form: str, value: Any, data_type: t.TimeType, semantic: str) -> time:
    parsed = clock(value) if form == "time" or (form == "text" and not value.endswith("Z")) else None
    if parsed is None:
        raise ImpossibleError
    hour, minute, second, nano = parsed
    if hour > 23 or minute > 59 or second > 59 or nano % 10 ** (9 - data_type.precision):
        raise ImpossibleError
    return time(hour, minute, second, nano // 1000)


_SCALARS: tuple[tuple[Any, Any], ...] = (
    (t.BooleanType, _boolean),
    (t.IntegralType, _whole),
    ((t.FloatType, t.DoubleType), _float),
    (t.DecimalType, _decimal),
    (t.BinaryType, _bytes),
    (t.DateType, _date),
    ((t.TimestampType, t.TimestampNTZType), _timestamp),
    (t.TimeType, _time),
)
