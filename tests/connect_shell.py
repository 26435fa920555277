"""A thin client of Spark Connect, in a Python with `pyspark-client` alone: `connect_shell.py URL`.

Reads statements, a line of JSON each, and prints their rows as text, or the error, as a line of JSON each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def text(value: Any) -> str:
    """Return a value as the tests compare it."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def main(url: str) -> None:
    """Answer statements until the input ends. Raises RuntimeError where there is more than a thin client."""
    if any(importlib.util.find_spec(module) for module in ("py4j", "pyspark_pravega")):
        raise RuntimeError("this Python has a whole Spark, or this package")
    spark = SparkSession.builder.remote(url).getOrCreate()
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"rows": [[text(value) for value in row] for row in spark.sql(json.loads(line)).collect()]}
        except PySparkException as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # a session's end is told to its server, which the tests may have stopped before


if __name__ == "__main__":
    main(*sys.argv[1:])
