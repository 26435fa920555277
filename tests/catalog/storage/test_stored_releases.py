"""What earlier releases have stored in Pravega, in the registry and in checkpoints is read, and goes on, byte for byte.

A release adds a file to golden/ (see docs/releasing.md), and changes none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.versions import FOLDED
from tests.catalog.storage import stored_scope
from tests.datasource.transactions import log_rows
from tests.scopes import drop

RELEASES = sorted((Path(__file__).parent / "golden").glob("release-*.json"))
MADE = Path(__file__).resolve().parents[3] / "build" / "stored-scope.json"
"""What this version stores."""


@pytest.fixture(params=RELEASES, ids=lambda path: path.stem)
def saved(request: pytest.FixtureRequest, pravega: Pravega, client_config: ClientConfig) -> Iterator[dict[str, Any]]:
    """What a release has stored, restored in a scope of the same name."""
    found: dict[str, Any] = json.loads(request.param.read_text())
    drop(client_config, found["scope"])
    pravega.controller.create_scope(found["scope"])
    stored_scope.restore_schemas(pravega, found)
    if not stored_scope.restore_streams(pravega, found):
        drop(client_config, found["scope"])
        pytest.skip("this cluster has had these streams before, and gives their segments other numbers now")
    stored_scope.restore_tables(pravega, found)
    yield found
    drop(client_config, found["scope"])


def test_what_a_release_has_stored(
    spark: SparkSession, pravega: Pravega, saved: dict[str, Any], tmp_path: Path
) -> None:
    scope = saved["scope"]

    def ask(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query.replace("{s}", f"pravega.`{scope}`")).collect()]

    # Events, schemas of both versions, and hidden columns.
    rows = [(1, "kitchen", 21.5, None), (2, "cellar", 12.0, None), (3, "attic", 30.0, 40)]
    assert ask("SELECT * FROM {s}.sensor ORDER BY id") == rows
    assert ask("SELECT id, _schema_version FROM {s}.sensor ORDER BY id") == [(1, 0), (2, 0), (3, 1)]
    # Properties, comments and settings of the stream.
    properties = dict(ask("SHOW TBLPROPERTIES {s}.sensor"))
    expected = {"routing-key": "id", "format": "avro", "mode": "permissive", "retention.type": "time", "tags": "plant"}
    assert {key: properties[key] for key in expected} == expected
    assert "plant" in str(ask("DESCRIBE NAMESPACE EXTENDED {s}"))
    assert ("id", "int", "its number") in ask("DESCRIBE {s}.sensor")
    # Versions and tags.
    assert [row[0] for row in ask("SELECT version FROM {s}.sensor.history ORDER BY version")] == [1, 2]
    assert ask("SELECT id FROM {s}.sensor VERSION AS OF 'first' ORDER BY id") == [(1,), (2,)]
    assert ask("SELECT id FROM {s}.sensor VERSION AS OF 1 ORDER BY id") == [(1,), (2,)]
    # Versions that were folded.
    assert any("folded" in row for row in log_rows(pravega, scope))
    versions = ask("SELECT version, rows FROM {s}.many.history ORDER BY version")
    assert versions == [*((number + 1, number) for number in range(2 * FOLDED - 1)), (2 * FOLDED, 1)]
    # Key-value tables, views, tables of several streams.
    assert ask("SELECT * FROM {s}.countries") == [("ch", 1, "Zug")]
    assert ask("SELECT count(*) FROM {s}.every") == [(3,)]
    if spark.version >= "4.2":
        assert ask("SELECT * FROM {s}.rooms ORDER BY room") == [("attic", 30.0), ("cellar", 12.0), ("kitchen", 21.5)]
    # A streaming query goes on: it writes no row again, and every new one.
    checkpoint = tmp_path / "checkpoint"
    stored_scope.restore_files(checkpoint, saved["checkpoint"])
    assert ask("SELECT id FROM {s}.warm ORDER BY id") == [(1,), (3,)]
    spark.sql(f"INSERT INTO pravega.`{scope}`.sensor VALUES (4, 'roof', 35.0, 20)")
    stored_scope.start_query(spark, scope, checkpoint)
    assert ask("SELECT id FROM {s}.warm ORDER BY id") == [(1,), (3,), (4,)]
    # What comes after stands beside what was there.
    assert [row[0] for row in ask("SELECT version FROM {s}.sensor.history ORDER BY version")] == [1, 2, 3]
    assert pravega.controller.stream_configuration(Stream(scope, "sensor")).tags


@pytest.mark.long
def test_the_newest_file_is_what_this_version_stores(
    spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path
) -> None:
    """It has the same rows with the same members. If it has not, a release with the change needs a new file."""
    stored_scope.make(spark, pravega, scope, tmp_path)
    stored = stored_scope.save(pravega, scope) | {"checkpoint": stored_scope.save_files(tmp_path)}
    MADE.parent.mkdir(exist_ok=True)
    MADE.write_text(json.dumps(stored, indent=1) + "\n")
    newest = json.loads(RELEASES[-1].read_text()) if RELEASES else stored
    assert stored_scope.outline(stored) == stored_scope.outline(newest)
