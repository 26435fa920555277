"""A driver whose shuffle files are lost while statements write rows of key-value tables; prints what comes of each."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.catalog.writing.test_key_value_retries import (
    IN_SEVERAL_TASKS,
    ROWS,
    STATEMENTS,
    counts,
    filled,
    in_the_middle,
)


def main(controller: str, registry: str, scope: str, *commands: str) -> None:
    """Run each of the commands in two tasks at a time, delete the files, and print its error and the rows as JSON."""
    with tempfile.TemporaryDirectory(dir=".") as directory, connect(ClientConfig(controller_uri=controller)) as pravega:
        builder = SparkSession.builder.master("local[2,3]").config("spark.local.dir", directory)
        for key, value in {
            **IN_SEVERAL_TASKS,
            "spark.ui.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
        }.items():
            builder = builder.config(key, value)
        spark = configure(builder, controller_uri=controller, schema_registry_uri=registry).getOrCreate()
        for command in commands:
            statement = STATEMENTS[command]
            table = filled(spark, scope, command)
            lost: list[Path] = []

            def lose(lost: list[Path] = lost) -> None:
                for file in Path(directory).rglob("shuffle_*"):
                    file.unlink(missing_ok=True)
                    lost.append(file)

            try:
                in_the_middle(spark, pravega, scope, command, statement.format(table=table, rows=ROWS), lose).result()
                error = ""
            except Py4JJavaError as raised:
                error = str(raised)
            told = {"command": command, "error": error, "lost": len(lost), "counts": counts(spark, table)}
            print(json.dumps(told), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
