"""docs/recipes.md: what its programs print, and what each recipe promises besides."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.recipes import recipe, run_python, run_sql


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """What stands for `iot`, which a reader has for himself."""
    name = f"recipes{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE pravega.{name}")
    yield name
    spark.sql(f"DROP NAMESPACE pravega.{name} CASCADE")


def test_upserts_into_a_database(
    spark: SparkSession, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A micro-batch counts once, whether its query dies before or behind the commit of the database."""
    table, program = recipe("A database, by upsert", namespace=namespace, directory=tmp_path)
    run_sql(spark, table)
    names: dict[str, Any] = {"spark": spark}
    run_python(program, names)
    assert capsys.readouterr().out == program.output

    def newest() -> list[tuple[int, float, int]]:
        with closing(sqlite3.connect(tmp_path / "sensors.db")) as database:
            return database.execute("SELECT * FROM newest ORDER BY id").fetchall()

    def upsert_and_die(batch: DataFrame, number: int) -> None:
        names["upsert"](batch, number)
        raise RuntimeError("behind the commit")

    def fail(of_the_page: str, other: str) -> None:
        with pytest.raises(StreamingQueryException):
            exec(program.code.replace(of_the_page, other), names | {"upsert_and_die": upsert_and_die})

    spark.sql(f"INSERT INTO pravega.{namespace}.sensor VALUES (2, 19.0), (3, 7.5)")
    fail('count("*")', 'count("*") / 0')
    assert newest() == [(1, 21.5, 2), (2, 18.0, 1)]
    fail("foreachBatch(upsert)", "foreachBatch(upsert_and_die)")
    counted = [(1, 21.5, 2), (2, 19.0, 2), (3, 7.5, 1)]
    assert newest() == counted
    run_python(program, names)
    assert newest() == counted
