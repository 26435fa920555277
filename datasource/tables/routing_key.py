"""Checks which columns can be a routing key, and where their values lie in the key space."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, DateType, DecimalType, IntegralType, StringType, StructType

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.sql.options import ROUTING_KEY

_KEY_TYPES = (StringType, IntegralType, BooleanType, DateType, DecimalType)


def routing_key_column(key: str, columns: StructType) -> str:
    """Return the exact name of the column that a `routing-key` names in any case.

    Raises InvalidOptionError when there is none, UnsupportedTypeError for one whose values have no one text.
    """
    column = find_column(ROUTING_KEY.key, key, columns)
    if not isinstance(column.dataType, _KEY_TYPES):
        raise UnsupportedTypeError(
            f"'routing-key'='{key}' is a column of type {column.dataType.simpleString()}, which has no one text. "
            "Allowed are strings, whole numbers, decimals, booleans and dates."
        )
    return column.name


def key_positions_of(values: pa.Array) -> npt.NDArray[np.float64]:
    """Return the position in the key space of the text of each value, none of which is null.

    Raises InvalidRowError for a text that is too long.
    """
    return hash_keys(values if pa.types.is_string(values.type) else pc.cast(values, pa.string()))
