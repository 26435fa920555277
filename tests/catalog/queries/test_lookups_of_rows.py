"""A stream that is joined with a table of changes reads the rows of each micro-batch's keys only."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.catalog.queries.test_lookup_joins import JOIN, MACHINES, Enrichment

TABLE = "CREATE TABLE {} (country STRING, id {}, allowed DOUBLE) USING pravega "
PROPERTIES = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='{}', 'scaling.min-segments'='2')"
KINDS = ["INNER", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI"]
STEPS = [
    ("UPDATE {machine} SET allowed = 81 WHERE id < 0", "('de', 2, 97), ('xx', 9, 1), (NULL, 1, 5), ('fr', NULL, 6)"),
    ("UPDATE {machine} SET allowed = 50 WHERE country = 'de' AND id = 2", "('de', 2, 60), ('de', 4, 61)"),
    ("DELETE FROM {machine} WHERE country = 'fr' AND id = 1", "('fr', 1, 62), ('fr', 3, 63)"),
    ("INSERT INTO {machine} VALUES ('xx', 9, 70)", "('xx', 9, 64), (NULL, NULL, 7)"),
]
"""A statement before a micro-batch, and the measurements of the micro-batch."""


class Rows(Enrichment):
    """Joins with a table of changes, whose rows are remembered where a query has `{remembered}`."""

    def __init__(self, spark: SparkSession, scope: str, directory: Path, type: str, key: str) -> None:
        super().__init__(spark, scope, directory, f"pravega.`{scope}`.device")
        self.states = directory / "rows"
        self.names["remembered"] = (
            f"{self.names['machine']} WITH ('current-rows.remembered-in'='{self.states.as_uri()}')"
        )
        spark.sql(TABLE.format(self.names["machine"], type) + PROPERTIES.format(key))
        spark.sql(
            f"INSERT INTO {self.names['machine']} SELECT IF(id % 2 = 0, 'de', 'fr'), id, 80 FROM range({MACHINES})"
        )
        spark.sql("SELECT count(*) FROM {remembered}".format(**self.names)).collect()

    def files(self) -> set[tuple[str, int]]:
        return {(path.name, path.stat().st_mtime_ns) for path in self.states.glob("*/*.whole")}


@pytest.fixture
def rows(request: pytest.FixtureRequest, spark: SparkSession, scope: str, tmp_path: Path) -> Rows:
    return Rows(spark, scope, tmp_path, *getattr(request, "param", ("INT", "country,id")))


@pytest.mark.parametrize(
    ("rows", "most"),
    [(("SMALLINT", "country,id"), 10), pytest.param(("DECIMAL(12,3)", "id"), MACHINES, marks=pytest.mark.long)],
    indirect=["rows"],
)
def test_joins_have_the_rows_of_the_whole_table(rows: Rows, most: int) -> None:
    """With values that have changed, keys that are gone or new, and nulls.

    Other keys are neither folded nor compared, if tasks compare the type; and who looks keys up writes no rows.
    """
    text = JOIN.replace("{machine}", "{remembered}")
    texts = {
        kind: (text if kind in KINDS[:2] else text.replace(", m.allowed", "")).replace("{kind}", kind) for kind in KINDS
    }
    expected: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in KINDS}
    before = rows.files()
    with ExitStack() as opened:
        queries = {kind: opened.enter_context(rows.running(text)) for kind, text in texts.items()}
        for statement, measured in STEPS:
            rows.spark.sql(statement.format(**rows.names))
            rows.measure(measured)
            values = f"(SELECT country, CAST(id AS INT) AS id, temp FROM VALUES {measured} AS (country, id, temp))"
            for kind, query in queries.items():
                whole = texts[kind].replace("STREAM {measured}", values).replace("{remembered}", "{machine}")
                added = rows.spark.sql(whole.format(**rows.names)).collect()
                expected[kind] = sorted([*expected[kind], *(tuple(row) for row in added)], key=str)
                assert query.rows() == expected[kind], (kind, measured)
                assert query.entries() + query.sieved() <= most
                assert query.passes() == (1 if kind == "INNER" else 2)
    assert rows.files() == before


def test_rows_that_are_not_remembered_are_read_whole(rows: Rows) -> None:
    """The measurements are not read twice for a scan that reads all events anyway."""
    with rows.running(JOIN.replace("{kind}", "LEFT OUTER")) as query:
        rows.measure("('de', 2, 97), ('xx', 9, 1)")
        assert query.rows() == [("de", 2, 97, 80), ("xx", 9, 1, None)]
        assert query.entries() == MACHINES and query.passes() == 1


@pytest.mark.parametrize(("kind", "looks_up"), [("INNER", True), ("LEFT OUTER", False)])
def test_streams_of_changed_rows(rows: Rows, kind: str, looks_up: bool) -> None:
    """Their tasks write the rows before the next changes, and so run once: a join that keeps all rows looks none up."""
    text = (
        "SELECT c._change_type, c.allowed, m.allowed FROM STREAM {machine} CHANGES FROM VERSION 0 c "
        f"{kind} JOIN {{remembered}} m ON m.country = c.country AND m.id = c.id"
    )
    with rows.running(text) as query:
        assert len(query.rows()) == MACHINES
        rows.spark.sql("UPDATE {machine} SET allowed = 50 WHERE country = 'de' AND id = 2".format(**rows.names))
        changed = [row for row in query.rows() if row[0] != "insert"]
        assert changed == [("update_postimage", 50, 50), ("update_preimage", 80, 50)]
        assert (query.entries() <= 10) == looks_up and query.passes() == 1
