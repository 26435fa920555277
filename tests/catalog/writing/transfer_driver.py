"""A driver that transfers amounts between accounts, in several threads, beside other drivers."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import configure


@dataclass
class Transfers:
    """What a thread has done: by statement what it added to accounts, and how often others came first."""

    done: list[list[tuple[int, int]]]
    conflicts: int = 0


def transfer(spark: SparkSession, table: str, seed: int, accounts: int, statements: int, each: int) -> Transfers:
    """Make so many transfers with each of some statements, which is run again as long as it conflicts with others."""
    random, result = Random(seed), Transfers([])
    for _ in range(statements):
        amounts: Counter[int] = Counter()
        while not any(amounts.values()):
            for _ in range(each):
                source, target = random.sample(range(accounts), 2)
                amount = random.randint(1, 9)
                amounts.update({source: -amount, target: amount})
        statement = _update(table, amounts) if random.random() < 0.8 else _merge(table, amounts)
        while not _succeeds(spark, statement):
            result.conflicts += 1
        result.done.append(sorted(pair for pair in amounts.items() if pair[1]))
    return result


def _succeeds(spark: SparkSession, statement: str) -> bool:
    try:
        spark.sql(statement)
    except PySparkException as error:
        if error.getCondition() != "PRAVEGA_CONCURRENT_CHANGE":
            raise
        return False
    return True


def _update(table: str, amounts: Counter[int]) -> str:
    cases = " ".join(f"WHEN {account} THEN {amount}" for account, amount in amounts.items())
    return f"UPDATE {table} SET n = n + CASE id {cases} END WHERE id IN ({', '.join(map(str, amounts))})"


def _merge(table: str, amounts: Counter[int]) -> str:
    return (
        f"MERGE INTO {table} t USING (VALUES {', '.join(map(str, amounts.items()))} AS s(id, amount)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + s.amount"
    )


def main(table: str, *numbers: str) -> None:
    """Run two threads; print what they have done."""
    seed, *rest = map(int, numbers)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    servers = {"controller_uri": os.environ["PRAVEGA_CONTROLLER_URI"]}
    servers["schema_registry_uri"] = os.environ["PRAVEGA_SCHEMA_REGISTRY_URI"]
    spark = configure(builder, **servers).getOrCreate()
    with ThreadPoolExecutor() as threads:
        both = list(threads.map(lambda of_thread: transfer(spark, table, of_thread, *rest), (seed, seed + 1)))
    spark.stop()
    print(json.dumps({"done": both[0].done + both[1].done, "conflicts": both[0].conflicts + both[1].conflicts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
