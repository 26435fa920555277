"""docs/coming-from.md: its examples, and what it says of the options and statements of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.metadata.tables_of_streams import TABLES
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql.options import find_option, resolve

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"


def table(first: str) -> list[list[str]]:
    """The cells of the page's tables whose first column is called so, without their heads."""
    found: list[list[str]] = []
    inside = False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or cells[0] == first)
        if inside:
            found.append(cells)
    return [cells for cells in found[2:] if cells[0] != first and not cells[0].startswith("---")]


def codes(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


@pytest.fixture(scope="module")
def scope(spark: SparkSession) -> Iterator[str]:
    """A namespace after the page's examples have run in it."""
    spark.sql("CREATE NAMESPACE pravega.comingfrom")
    yield "comingfrom"
    spark.sql("DROP NAMESPACE pravega.comingfrom CASCADE")


def mine(text: str, scope: str) -> str:
    return text.replace("pravega.iot.", f"pravega.{scope}.").replace("'iot.", f"'{scope}.")


def test_the_page(spark: SparkSession, scope: str) -> None:
    """Its statements, in a namespace of another name, and the rows that it shows for them; then what it refuses."""
    blocks = re.findall(r"^```sql\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    for statements, shown in blocks:
        *before, last = mine(statements, scope).strip().rstrip(";").split(";\n")
        for statement in before:
            spark.sql(statement)
        found = [" ".join(map(str, row)) for row in spark.sql(last).collect()]
        assert found == shown.replace("iot/", f"{scope}/").splitlines()
    refused = table("statement")
    assert len(refused) == 23
    for statement, _, says in refused:
        with pytest.raises(AnalysisException) as caught:
            spark.sql(mine(codes(statement)[0], scope))
        message = str(caught.value)
        assert message.startswith("[PRAVEGA_"), message
        assert codes(says) and [words for words in codes(says) if words not in message] == [], message
    assert spark.sql(f"SELECT count(*) FROM pravega.{scope}.sensor").collect() == [(3,)]


@pytest.mark.parametrize("cells", [*table("option of Kafka"), *table("read option of Iceberg")], ids=lambda row: row[0])
def test_options_of_others(cells: list[str]) -> None:
    [key], ours = codes(cells[0]), codes(cells[1])
    if ours and find_option(key) is find_option(ours[0]):
        return  # taken as it is
    with pytest.raises(InvalidOptionError, match=f"There is no read option '{re.escape(key)}'") as caught:
        resolve(read={key: "3"}, env={})
    assert "Valid keys" not in caught.value.message
    if cells[1] == "-":
        assert "Did you mean" not in caught.value.message
    else:
        [named] = re.findall("Did you mean '([^']+)'", caught.value.message)
        assert find_option(named) is find_option(ours[0]) is not None


def test_metadata_tables_of_iceberg(spark: SparkSession, scope: str) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS pravega.{scope}.of_iceberg (id INT) USING pravega")
    for theirs, here in table("metadata table of Iceberg"):
        ours = codes(here)[0]
        assert ours in TABLES
        with pytest.raises(AnalysisException, match=rf"has no table .*\. Did you mean [^ ]*\.{ours}\?"):
            spark.sql(f"SELECT * FROM pravega.{scope}.of_iceberg.{codes(theirs)[0]}")


def test_properties_options_and_procedures_that_the_page_names(spark: SparkSession) -> None:
    text = PAGE.read_text()
    called = set(re.findall(r"CALL pravega\.system\.(\w+)`", text))
    assert called <= {row[-1] for row in spark.sql("SHOW PROCEDURES IN pravega.system").collect()}
    for key in ("routing-key", "format", "event-time", "retention.type", "retention.minimum", "scaling.type", "codec"):
        assert f"`{key}`" in text and find_option(key) is not None
    for tables in re.findall(r"`pravega\.iot\.sensor\.(\w+)`", text):
        assert tables in TABLES
