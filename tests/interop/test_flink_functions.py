"""Functions of Flink, called by Flink, beside what `translate` makes of them, called by Spark: the same values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.sql.flink.report import ALL_TRANSLATED
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.flink_cases import DIRECTORY
from tests.interop.debezium_readers import convert, show_floats
from tests.interop.flink import Flink

pytestmark = pytest.mark.flink

CALLS = (DIRECTORY / "functions.txt").read_text().splitlines()
BIDS = """(VALUES
    ('a', 2, CAST(3.00 AS DECIMAL(10, 2)), 2.5E0, TIMESTAMP '2024-01-31 23:59:59.500',
        DATE '2024-01-31', ARRAY['x', 'y']),
    ('größe ', -15, -2.55, -0.5E0, TIMESTAMP '2001-12-31 10:00:00.001', DATE '1969-02-28', ARRAY['z']),
    (CAST(NULL AS STRING), CAST(NULL AS INT), CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS DOUBLE),
        CAST(NULL AS TIMESTAMP(3)), CAST(NULL AS DATE), CAST(NULL AS ARRAY<STRING>))
) AS bid (item, n, price, x, bidtime, born, tags)"""
QUERY = f"SELECT {', '.join(f'{call} AS c{number}' for number, call in enumerate(CALLS))} FROM {BIDS}"
SETTINGS = "SET 'table.local-time-zone' = 'UTC'; SET 'execution.runtime-mode' = 'batch';"
SPARK_TYPES: dict[str, type[T.DataType]] = {
    "CHAR": T.StringType,
    "VARCHAR": T.StringType,
    "BOOLEAN": T.BooleanType,
    "VARBINARY": T.BinaryType,
    "DECIMAL": T.DecimalType,
    "INTEGER": T.IntegralType,
    "BIGINT": T.IntegralType,
    "DOUBLE": T.DoubleType,
    "DATE": T.DateType,
    "TIMESTAMP_WITHOUT_TIME_ZONE": T.TimestampNTZType,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": T.TimestampType,
    "ARRAY": T.ArrayType,
    "MAP": T.MapType,
    "ROW": T.StructType,
}


def name_values(rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the values of each call. The rows are sorted: those of VALUES come from Flink in any order."""
    return dict(zip(CALLS, map(list, zip(*sorted(rows, key=repr), strict=True)), strict=True))


def test_functions_give_the_same_values(spark: SparkSession, flink: Flink) -> None:
    done = translate(f"{SETTINGS} {QUERY};")
    frame = spark.sql(split_script(done.script)[-1].text)
    kinds, shown = flink.select(QUERY)
    types = [field.dataType for field in frame.schema.fields]
    other_types = [
        (call, kind, data_type)
        for call, kind, data_type in zip(CALLS, kinds, types, strict=True)
        if not isinstance(data_type, SPARK_TYPES[kind])
    ]
    assert done.exit_code == ALL_TRANSLATED
    assert other_types == []
    theirs = [[convert(*pair) for pair in zip(row, types, strict=True)] for row in shown]
    ours = [show_floats(list(row.values())) for row in frame.toArrow().to_pylist()]
    assert name_values(ours) == name_values(theirs)
