"""Tables of the formats that no registry knows, of one's own formats, of one type of events, and of one version."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.formats.core.batches import LARGEST_BATCH
from pyspark_pravega.formats.core.format import ENTRY_POINTS
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.scans import batches, scan

ROOT = Path(__file__).parents[3]


class TestText:
    def test_a_table(self, spark: SparkSession, scope: str) -> None:
        table = f"pravega.`{scope}`.lines"
        others = "'routing-key.of-all-events'='false'"
        spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('format'='text', 'routing-key'='value', {others})")
        spark.sql(f"INSERT INTO {table} VALUES ('plain'), (''), ('größe\\n日本')")
        assert sorted(row.value for row in spark.table(table).collect()) == ["", "größe\n日本", "plain"]
        assert spark.table(table).schema.simpleString() == "struct<value:string>"
        # Bytes that are no text.
        reader = spark.createDataFrame([(bytearray(b"\xff"),)], "event BINARY").write.format("pravega")
        options = spark_options(scope, "lines") | {"format": "raw"}
        reader.options(**options).mode("append").save()
        with pytest.raises(PySparkException, match="it is not UTF-8 text \\(byte 0\\)"):
            spark.table(table).collect()
        assert spark.read.option("mode", "dropmalformed").table(table).count() == 3
        with pytest.raises(PySparkException, match="`value STRING`"):
            spark.sql(f"CREATE TABLE {table}2 (a INT) TBLPROPERTIES ('format'='text')")
        assert "'format' = 'text'" in spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]

    def test_json_of_any_shape_is_text(self, spark: SparkSession, scope: str) -> None:
        table = f"pravega.`{scope}`.anything"
        spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('format'='text')")
        spark.sql(f"""INSERT INTO {table} VALUES ('{{"up": {{"port": 7}}}}'), ('[1]'), ('{{"up": "none"}}')""")
        found = spark.sql(f"SELECT try_variant_get(parse_json(value), '$.up.port', 'int') AS port FROM {table}")
        assert sorted(row.port or 0 for row in found.collect()) == [0, 0, 7]
        with pytest.raises(PySparkException, match="column 'v' has type variant, which format avro cannot hold: use"):
            spark.sql(f"CREATE TABLE {table}2 (v VARIANT) TBLPROPERTIES ('format'='avro')")
        spark.sql(f"CREATE TABLE {table}3 (v STRING) TBLPROPERTIES ('format'='json')")
        spark.sql(f"""INSERT INTO {table}3 SELECT parse_json('{{"a": [1, 2.5]}}')""")
        assert [row.v for row in spark.table(f"{table}3").collect()] == ['{"a":[1,2.5]}']

    def test_without_catalog(self, spark: SparkSession, scope: str) -> None:
        spark.sql(f"CREATE TABLE pravega.`{scope}`.lines TBLPROPERTIES ('format'='raw')")
        spark.sql(f"INSERT INTO pravega.`{scope}`.lines VALUES (CAST('a' AS BINARY))")
        read = spark.read.format("pravega").options(**spark_options(scope, "lines"), format="text").load()
        assert [row.value for row in read.collect()] == ["a"]


def spark_options(scope: str, stream: str) -> dict[str, str]:
    return {"scope": scope, "stream": stream, "controller-uri": os.environ["TEST_CONTROLLER"]}


@pytest.fixture(autouse=True)
def _controller(cluster: ClusterInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CONTROLLER", cluster.controller_uri)


CSV_COLUMNS = "id INT NOT NULL, name STRING, price DECIMAL(8,2), at TIMESTAMP, ok BOOLEAN"


class TestCsv:
    def test_a_table(self, spark: SparkSession, scope: str) -> None:
        table = f"pravega.`{scope}`.orders"
        spark.sql(
            f"CREATE TABLE {table} ({CSV_COLUMNS}) COMMENT 'orders' "
            "TBLPROPERTIES ('format'='csv', 'csv.delimiter'='tab', 'csv.null-value'='NULL')"
        )
        spark.sql(
            f"INSERT INTO {table} VALUES (1, 'a \"b\"', 1.50, TIMESTAMP'2024-01-01 00:00:00', true), "
            "(2, NULL, NULL, NULL, NULL)"
        )
        texts = spark.read.format("pravega").options(**spark_options(scope, "orders"), format="text").load()
        assert sorted(row.value for row in texts.collect()) == [
            '1\t"a ""b"""\t1.50\t2024-01-01T00:00:00.000000Z\ttrue',
            "2\tNULL\tNULL\tNULL\tNULL",
        ]
        found = spark.sql(f"SELECT ok, id, price, name, at FROM {table} ORDER BY id").collect()
        moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)
        assert found == [(True, 1, Decimal("1.50"), 'a "b"', moment), (None, 2, None, None, None)]
        assert not spark.table(table).schema["id"].nullable
        # Altering keeps the columns; the statement that is shown makes an equal table.
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('mode'='dropmalformed')")
        (statement,) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
        spark.sql(statement[0].replace("orders", "copy", 1))
        assert spark.table(f"pravega.`{scope}`.copy").schema == spark.table(table).schema
        assert spark.sql(f"SHOW CREATE TABLE pravega.`{scope}`.copy").collect()[0][0] == statement[0].replace(
            ".orders", ".copy"
        )
        spark.sql(f"DROP TABLE {table}")

    def test_a_stream_that_is_there(self, spark: SparkSession, scope: str) -> None:
        raw = f"pravega.`{scope}`.lines"
        spark.sql(f"CREATE TABLE {raw} TBLPROPERTIES ('format'='raw')")
        spark.sql(f"INSERT INTO {raw} SELECT CAST(concat(id, ';\"x;y\"') AS BINARY) FROM range(3)")
        reader = spark.read.format("pravega").options(**spark_options(scope, "lines"), format="csv")
        found = reader.option("csv.delimiter", ";").schema("a INT, b STRING").load().collect()
        assert sorted((row.a, row.b) for row in found) == [(n, "x;y") for n in range(3)]

    def test_refusals(self, spark: SparkSession, scope: str) -> None:
        for columns, properties, message in [
            ("a ARRAY<INT>", "'format'='csv'", "column 'a' has type array<int>, but a CSV field holds one value"),
            ("a INT", "'format'='csv', 'framing'='registry'", "'framing'='registry' needs a schema in the registry"),
            ("a INT", "'format'='csv', 'csv.delimiter'='ab'", "expected one character"),
            ("a INT", "'format'='json', 'csv.delimiter'=';'", "'csv.delimiter' does not apply with 'format'='json'"),
            ("a INT", "'format'='protobuf'", "A Protobuf schema cannot be made from columns"),
            (
                "a INT",
                "'format'='nothing'",
                "'nothing' of 'format' is unknown; expected one of avro, csv, debezium-avro",
            ),
            ("a INT", "'format'='kvtabel'", "json, kvtable, maxwell-json, protobuf, raw, text."),
        ]:
            with pytest.raises(PySparkException) as caught:
                spark.sql(f"CREATE TABLE pravega.`{scope}`.t ({columns}) TBLPROPERTIES ({properties})")
            assert message in str(caught.value)
        assert spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect() == []


def test_json_timestamps_as_numbers(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.events"
    spark.sql(
        f"CREATE TABLE {table} (at TIMESTAMP, local TIMESTAMP_NTZ) "
        "TBLPROPERTIES ('format'='json', 'framing'='none', 'json.timestamp-format'='epoch-millis')"
    )
    times = "TIMESTAMP'1970-01-01 00:00:01.5Z', TIMESTAMP_NTZ'1970-01-01 00:00:00.000001'"
    spark.sql(f"INSERT INTO {table} VALUES ({times})")
    texts = spark.read.format("pravega").options(**spark_options(scope, "events"), format="text").load()
    assert [row.value for row in texts.collect()] == ['{"at":1500,"local":0.001}']
    assert spark.sql(f"SELECT unix_micros(at) AS at, CAST(local AS STRING) AS local FROM {table}").collect() == [
        Row(at=1_500_000, local="1970-01-01 00:00:00.000001")
    ]


FORMAT = ROOT / "examples" / "keyvalue-format"
SCRIPT = """
    import sys
    from pyspark.sql import SparkSession
    from pyspark_pravega import configure
    scope, controller = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.codegen.wholeStage", "false")
    spark = configure(builder, controller_uri=controller).getOrCreate()
    table = f"pravega.`{scope}`.pumps"
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, name STRING, temp DOUBLE) TBLPROPERTIES ('format'='keyvalue')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'north', 21.5), (2, NULL, NULL)")
    print("rows", spark.sql(f"SELECT temp, id, name FROM {table} ORDER BY id").collect())
    text = spark.read.format("pravega").option("controller-uri", controller).option("scope", scope)
    text = text.option("stream", "pumps").option("format", "text").load()
    print("events", sorted(row.value for row in text.collect()))
    text.selectExpr("CAST('id=x' AS BINARY) AS event").limit(1).write.format("pravega").option(
        "controller-uri", controller).option("scope", scope).option("stream", "pumps").option("format", "raw").mode(
        "append").save()
    print("errors", [row[0] for row in spark.sql(
        f"SELECT _error FROM {table} WITH ('mode'='permissive') WHERE _error IS NOT NULL").collect()])
    print("count", spark.sql(f"SELECT count(*) FROM {table} WITH ('mode'='dropmalformed')").collect())
    captured = f"pravega.`{scope}`.captured"
    spark.sql(f"CREATE TABLE {captured} (id INT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('format'='captured')")
    spark.sql(f"INSERT INTO {captured} VALUES (1, 'a'), (2, 'b')")
    spark.sql("SELECT CAST('-2=b' AS BINARY) AS event").write.format("pravega").option(
        "controller-uri", controller).option("scope", scope).option("stream", "captured").option("format", "raw").mode(
        "append").save()
    print("current", spark.sql(f"SELECT * FROM {captured}").collect())
    print("log", spark.sql(f"SELECT op, before.v FROM pravega.`{scope}`.`captured$changelog` WHERE op = 'd'").collect())
    changes = spark.sql(f"SELECT _change_type, id FROM {captured} CHANGES FROM VERSION 0 ORDER BY ALL")
    print("changes", [tuple(row) for row in changes.collect()])
    print("properties", spark.sql(f"SHOW CREATE TABLE {captured}").collect()[0][0].replace("\\n", " "))
"""


def test_a_format_of_ones_own(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    """The example of docs/formats/own.md: installed as users do, found by its name, in the catalog and in tasks.

    Beside it a format of changes, whose tables are tables of changes as those of this package.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    source = tmp_path / "source"
    source.mkdir()
    for file in FORMAT.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(source)], check=True)
    captured = tmp_path / "site" / "captured_format-1.0.dist-info"
    captured.mkdir()
    (captured / "METADATA").write_text("Metadata-Version: 2.1\nName: captured-format\nVersion: 1.0\n")
    (captured / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\ncaptured = captured_format:CapturedFormat\n")
    shutil.copy(Path(__file__).parent / "captured_format.py", tmp_path / "site")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(script), scope, cluster.controller_uri],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert lines["rows"] == "[Row(temp=21.5, id=1, name='north'), Row(temp=None, id=2, name=None)]"
    assert lines["events"] == "['id=1;name=north;temp=21.5', 'id=2']"
    assert "it is not a keyvalue event" in lines["errors"]
    assert lines["count"] == "[Row(count(1)=2)]"
    assert lines["current"] == "[Row(id=1, v='a')]"
    assert lines["log"] == "[Row(op='d', v='b')]"
    assert lines["changes"] == "[('delete', 2), ('insert', 1), ('insert', 2)]"
    assert "'primary-key' = 'id'" in lines["properties"]


NOTE = {"name": "note", "type": ["null", "string"], "default": None}


class TestVersions:
    @pytest.fixture
    def table(self, spark: SparkSession, scope: str, client_config: ClientConfig) -> str:
        """A table whose schema got a second version, with rows of both."""
        table = f"pravega.`{scope}`.readings"
        spark.sql(f"CREATE TABLE {table} (id INT NOT NULL) TBLPROPERTIES ('format'='avro')")
        spark.sql(f"INSERT INTO {table} VALUES (1)")
        with connect(client_config) as pravega:
            registry = pravega.registry(scope)
            (first,) = registry.latest_schemas("readings")
            newer = json.loads(first.schema.text)
            newer["fields"].append(NOTE)
            registry.add_schema("readings", SchemaInfo.of_text(first.schema.type, "Avro", json.dumps(newer)))
        spark.sql(f"INSERT INTO {table} VALUES (2, 'new')")
        return table

    def test_the_latest_is_the_default(self, spark: SparkSession, table: str) -> None:
        found = spark.sql(f"SELECT *, _schema_version, _encoding_id FROM {table} ORDER BY id").collect()
        assert found == [(1, None, 0, 0), (2, "new", 1, 1)]

    def test_pinned(self, spark: SparkSession, table: str, scope: str) -> None:
        assert spark.sql(f"SELECT * FROM {table} WITH ('schema-version'='0') ORDER BY id").collect() == [(1,), (2,)]
        assert spark.read.option("schema-version", "0").table(table).columns == ["id"]
        assert spark.read.option("schema-version", "1").table(table).columns == ["id", "note"]
        with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN|cannot be resolved"):
            spark.sql(f"SELECT note FROM {table} WITH ('schema-version'='0')").collect()
        both = spark.sql(
            f"SELECT a.id, b.note FROM {table} WITH ('schema-version'='0') a JOIN {table} b ON a.id = b.id ORDER BY 1"
        )
        assert both.collect() == [(1, None), (2, "new")]
        with pytest.raises(PySparkException, match="no such version of .*Its versions: 0, 1"):
            spark.read.option("schema-version", "7").table(table)
        spark.sql(f"CREATE TABLE pravega.`{scope}`.bytes TBLPROPERTIES ('format'='raw')")
        with pytest.raises(PySparkException, match="'schema-version'='0' does not apply"):
            spark.read.option("schema-version", "0").table(f"pravega.`{scope}`.bytes")

    def test_pinned_without_catalog(self, spark: SparkSession, table: str, scope: str, cluster: ClusterInfo) -> None:
        options = spark_options(scope, "readings") | {"schema-registry-uri": str(cluster.registry_uri)}
        read = spark.read.format("pravega").options(**options).option("schema-version", "0").load()
        assert read.drop("_segment", "_offset", "_event_pointer").columns == ["id"]
        assert sorted(row.id for row in read.collect()) == [1, 2]


@pytest.mark.parametrize("format", ["json", pytest.param("debezium-json", marks=pytest.mark.long)])
def test_compressed_events_that_are_large_together(
    spark: SparkSession, client_config: ClientConfig, scope: str, format: str
) -> None:
    """A megabyte of events that would have 150 in memory is read in parts."""
    table = f"pravega.`{scope}`.large"
    properties = f"'format'='{format}', 'framing'='registry', 'codec'='gzip'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v STRING) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} SELECT id, repeat(chr(97 + id % 20), 1000000) FROM range(150)")
    sums = spark.sql(f"SELECT count(*), sum(id), sum(length(v)), count(DISTINCT v) FROM {table}").first()
    assert tuple(sums) == (150, 11_175, 150_000_000, 20)
    if format == "json":
        found = spark.sql(f"SELECT id, _offset FROM {table} WHERE length(v) > 5").collect()
        assert sorted(row.id for row in found) == list(range(150))
        assert len({row._offset for row in found}) == 150
        assert len(spark.sql(f"SELECT length(v) FROM (SELECT v FROM {table} LIMIT 140)").collect()) == 140
        with connect(client_config) as pravega:
            loaded = load_table(pravega, Stream(scope, "large")).table
            (parts,) = batches(scan(pravega, loaded, ["v"]))
        assert len(parts) > 1
        assert max(part.nbytes for part in parts) < LARGEST_BATCH
