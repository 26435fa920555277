"""No secret is shown, and a user is refused what he may not do, by name."""

from __future__ import annotations

import base64
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.client.stream import Access, Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.secrets_driver import PREFIX

DRIVER = Path(__file__).with_name("secrets_driver.py")
DELEGATION_TOKEN = re.compile(rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")
"""Header, claims and signature: a JSON Web Token."""
WRONG = "quite-wrong-and-secret"


@pytest.fixture
def table(secure_spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """A table of two rows on the secured servers."""
    secure_spark.sql(f"CREATE NAMESPACE secure.`{fresh_name}`")
    secure_spark.sql(f"CREATE TABLE secure.`{fresh_name}`.t (a INT) USING pravega")
    secure_spark.sql(f"INSERT INTO secure.`{fresh_name}`.t VALUES (1), (2)")
    yield f"`{fresh_name}`.t"
    secure_spark.sql(f"DROP NAMESPACE secure.`{fresh_name}` CASCADE")


def catalog_of(spark: SparkSession, cluster: ClusterInfo, name: str, user: str, password: str) -> str:
    """Configure one more catalog on the secured servers."""
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, "io.github.pysparkpravega.PravegaCatalog")
    for key, value in {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "security.trust-store": str(cluster.ca_file),
        "security.username": user,
        "security.password": password,
    }.items():
        spark.conf.set(f"{prefix}.{key}", value)
    return name


def shown_secrets(text: str, password: str) -> list[str]:
    """Which secrets of `admin` stand in a text, as they are or inside of something in base64, such as a pickle."""
    basic = base64.b64encode(f"admin:{password}".encode()).decode()
    found = []
    readable = [("", text.encode())]
    for run in re.findall(r"[A-Za-z0-9+/_-]{24,}={0,2}", text):
        # A run may begin with other letters, so each of the four ways to cut it into groups is tried.
        plain = run.rstrip("=").translate(str.maketrans("-_", "+/"))
        for shift in range(4):
            cut = plain[shift : shift + (len(plain) - shift) // 4 * 4]
            readable.append(("in base64: ", base64.b64decode(cut)))
    for how, data in readable:
        if password.encode() in data:
            found.append(f"{how}the password")
        if basic.encode() in data:
            found.append(f"{how}the Basic token")
        if DELEGATION_TOKEN.search(data):
            found.append(f"{how}a delegation token")
    return found


def test_what_is_looked_for_would_be_found(secure_client_config: Callable[..., ClientConfig], table: str) -> None:
    """The functions of tasks hold logins and tokens: in a plan that showed them they would be seen."""
    password = "secret-of-the-admin"
    config = replace(secure_client_config(), credentials=BasicCredentials("admin", password))
    with connect(secure_client_config()) as pravega:
        token = pravega.controller.delegation_token(Stream(*table.replace("`", "").split(".")), Access.READ)
    pickled = base64.b64encode(pickle.dumps((config, token))).decode()
    assert shown_secrets(f"plan x{pickled}!", password) == [
        "in base64: the password",
        "in base64: a delegation token",
    ]
    login = BasicCredentials("admin", password).authorization()
    assert shown_secrets(f"{login} {token}", password)[:2] == ["the Basic token", "a delegation token"]


@pytest.mark.timeout(600)
def test_nothing_shows_a_secret(secure_cluster: ClusterInfo, secure_scope: str, tmp_path: Path) -> None:
    """Rows, plans, errors, the logs of driver, service and tasks at level INFO, and Spark's events."""
    password = secure_cluster.users["admin"]
    servers = secure_cluster.controller_uri, str(secure_cluster.registry_uri), str(secure_cluster.ca_file)
    done = subprocess.run(
        [sys.executable, str(DRIVER), secure_scope, *servers],
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "TEST_PASSWORD": password},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    shown = {
        "output": done.stdout,
        "standard error, the service's too": done.stderr,
        "log": (tmp_path / "spark.log").read_text(),
        "events": "".join(file.read_text() for file in (tmp_path / "events").rglob("*") if file.is_file()),
    }
    # What was asked for was said, in its place.
    for place, texts in {
        "output": ("== Physical Plan ==", "BatchScan", "AppendData", "PRAVEGA_EVENT_TOO_LARGE", "on purpose", "\n52\n"),
        "log": ("INFO SparkContext", "INFO DAGScheduler", "INFO Executor", "on purpose"),
        "events": ("SparkListenerSQLExecutionStart", "SparkListenerTaskEnd", f"{PREFIX}.security.username"),
    }.items():
        assert [text for text in texts if text not in shown[place]] == [], (place, shown[place][-5000:])
    for place, text in shown.items():
        assert shown_secrets(text, password) == [], place


def test_a_wrong_password_is_named_and_not_shown(spark: SparkSession, table: str, secure_cluster: ClusterInfo) -> None:
    name = catalog_of(spark, secure_cluster, "wrong", "admin", WRONG)
    with pytest.raises(PySparkException, match="PRAVEGA_AUTHENTICATION_FAILED") as caught:
        spark.sql(f"SHOW TABLES IN {name}.{table.split('.')[0]}").collect()
    assert WRONG not in str(caught.value)


def test_a_reader_reads_and_is_refused_the_rest_by_name(
    spark: SparkSession, table: str, secure_cluster: ClusterInfo
) -> None:
    name = catalog_of(spark, secure_cluster, "reading", "reader", secure_cluster.users["reader"])
    assert sorted(row.a for row in spark.sql(f"SELECT a FROM {name}.{table}").collect()) == [1, 2]
    scope = table.split(".")[0]
    for statement in (
        f"INSERT INTO {name}.{table} VALUES (3)",
        f"CREATE TABLE {name}.{scope}.other (a INT) USING pravega",
        f"DROP TABLE {name}.{table}",
    ):
        with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*READ_UPDATE"):
            spark.sql(statement)
    assert spark.sql(f"SELECT count(*) FROM secure.{table}").first()[0] == 2
