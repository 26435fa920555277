"""The Spark session that the tests of one process share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql.options import SESSION_CONNECTIONS

_CONFS_AT_START: dict[str, str] = {}
"""Those of `list_confs`, once there is a session that tests share."""
_CATALOGS_OF_FIXTURES = tuple(f"spark.sql.catalog.{name}" for name in ("secure", "quick", "tiered"))
"""Fixtures of the whole run add these catalogs."""


@pytest.fixture(scope="session")
def spark(cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the catalog `pravega` on plain servers. Tasks may fail twice."""
    builder = SparkSession.builder.master("local[2,3]").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4")
    # Tests add catalogs of their own.
    builder = builder.config(SESSION_CONNECTIONS, "true")
    # Compiling each stage takes longer than running it.
    builder = builder.config("spark.sql.codegen.wholeStage", "false")
    # Of a heap of 1 GB, every aggregate, sort and join of a task would take 16 MB at once.
    builder = builder.config("spark.buffer.pageSize", "1m")
    # Spark's own choice for local files runs `readlink` at every rename, which is a third of a micro-batch.
    manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    builder = builder.config("spark.sql.streaming.checkpointFileManagerClass", manager)
    # Spark keeps what its UI would show of a thousand statements.
    for kept in ("spark.sql.ui.retainedExecutions", "spark.ui.retainedJobs", "spark.ui.retainedStages"):
        builder = builder.config(kept, "20")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("local")))
    session = _started(configure(builder, **_settings(cluster)))
    _keep_classes(session)
    _CONFS_AT_START.update(list_confs(session))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def secure_spark(spark: SparkSession, secure_cluster: ClusterInfo) -> SparkSession:
    """The session, with the catalog `secure` on servers with TLS and users beside `pravega`."""
    return configure(SparkSession.builder, catalog="secure", **_settings(secure_cluster)).getOrCreate()


@pytest.fixture(scope="session")
def quick_spark(spark: SparkSession, quick_cluster: ClusterInfo) -> SparkSession:
    """The session, with the catalog `quick` on a cluster with quick retention and watermarks beside `pravega`."""
    return configure(SparkSession.builder, catalog="quick", **_settings(quick_cluster)).getOrCreate()


@contextmanager
def registered(spark: SparkSession, name: str, function: Any, returned: str | None = None) -> Iterator[None]:
    """Register a function of SQL for some statements; other tests share the session, and list its functions."""
    spark.udf.register(name, function, returned)
    try:
        yield
    finally:
        spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


@contextmanager
def with_confs(spark: SparkSession, confs: dict[str, str]) -> Iterator[None]:
    """Set confs that the session lacks, for some statements."""
    for key, text in confs.items():
        spark.conf.set(key, text)
    try:
        yield
    finally:
        for key in confs:
            spark.conf.unset(key)


def list_confs(session: SparkSession) -> dict[str, str]:
    """List the confs of a session that statements can change."""
    return {key: text for key, text in session.conf.getAll.items() if key.startswith("spark.sql.")}


def take_back() -> None:
    """Take back what tests have left in the session that they share: confs, temporary views, the current namespace."""
    session = SparkSession._instantiatedSession
    if session is None or ended() is not None or not _CONFS_AT_START:
        return
    session.sql("USE spark_catalog.default")
    state, java = session._jsparkSession.sessionState(), session._jvm.scala.jdk.javaapi.CollectionConverters
    for view in java.asJava(state.catalog().listLocalTempViews("*")):
        session.catalog.dropTempView(view.table())
    confs = list_confs(session)
    for key in confs.keys() - _CONFS_AT_START.keys():
        if not key.startswith(_CATALOGS_OF_FIXTURES):
            session.conf.unset(key)
    for key, text in _CONFS_AT_START.items():
        if confs.get(key) != text:
            session.conf.set(key, text)


def functions_left() -> list[str]:
    """List the functions that tests have left in the session that they share."""
    session = SparkSession._instantiatedSession
    if session is None or ended() is not None:
        return []
    return [name for (name,) in session.sql("SHOW USER FUNCTIONS IN spark_catalog.default").collect()]


def ended() -> str | None:
    """Tell how the session's JVM has ended, None while it runs; tests would say no more than that nothing answers."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is None or (code := jvm.poll()) is None:
        return None
    reports = [file.read_text(errors="replace")[:3000] for file in Path().glob(f"hs_err_pid{jvm.pid}.log")]
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    return "\n".join([f"the JVM of the Spark session has ended with code {code} (now {available})", *reports])


def _started(builder: SparkSession.Builder, tries: int = 5) -> SparkSession:
    """Start Spark's JVM, again if its process ends at once.

    PySpark forks to start it. The threads of gRPC, which the tests' own client has in this process, abort such a child
    now and then: 4 of 100 while calls are made.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the pipe to a process that has ended
        for _ in range(tries - 1):
            try:
                return builder.getOrCreate()
            except PySparkRuntimeError as error:
                if error.getCondition() != "JAVA_GATEWAY_EXITED":
                    raise
            gc.collect()
        return builder.getOrCreate()


def _keep_classes(session: SparkSession) -> None:
    """Keep what PySpark asks the JVM for at every statement and error: each time, Java looks into all jars for it."""
    jvm = session._jvm
    package = jvm.py4j
    package.reflection = package.reflection
    package.reflection.TypeUtil = package.reflection.TypeUtil
    kept = {name: getattr(jvm, name) for name in ("PythonUtils", "PythonErrorUtils", "functions")}
    vars(jvm).update(kept, py4j=package)


def _settings(cluster: ClusterInfo) -> dict[str, str | None]:
    user = "admin" if cluster.users else None
    return {
        "controller_uri": cluster.controller_uri,
        "schema_registry_uri": cluster.registry_uri,
        "security_trust_store": cluster.ca_file,
        "security_username": user,
        "security_password": cluster.users[user] if user else None,
    }
