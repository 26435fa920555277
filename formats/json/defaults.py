"""Defaults of new columns as documents have them, for the "default" of their properties."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedTypeError

from ..core.arrow_types import arrow_type_of
from ..core.defaults import initial_value
from .writing import JsonEncoder


def json_defaults(columns: Iterable[StructField], timestamps: str) -> dict[str, Any]:
    """Return the defaults of the columns that have one which is not null, by name.

    Raises UnsupportedTypeError for values that a JSON schema cannot say.
    """
    return {
        field.name: _as_written(field, value, timestamps)
        for field in columns
        if (value := initial_value(field)) is not None
    }


def _as_written(field: StructField, value: Any, timestamps: str) -> Any:
    column = StructType([StructField(field.name, field.dataType, field.nullable)])
    batch = pa.RecordBatch.from_arrays([pa.array([value], arrow_type_of(field.dataType))], [field.name])
    [document] = JsonEncoder(column, timestamps=timestamps).encode(batch).to_pylist()
    written = json.loads(document)[field.name]
    if isinstance(value, Decimal) and Decimal(repr(written)) != value:
        raise UnsupportedTypeError(
            f"column '{field.name}' cannot have the default {value}: a number in a JSON schema has about 15 digits. "
            "Choose 'format'='avro', or leave DEFAULT out"
        )
    return written
