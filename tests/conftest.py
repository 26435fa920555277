"""Real servers for all tests: started once per run, or those that the environment names.

`PRAVEGA_CONTROLLER_URI` (with `PRAVEGA_SCHEMA_REGISTRY_URI`, and as needed `PRAVEGA_TRUST_STORE`,
`pravega_client_auth_method`, `pravega_client_auth_token`) makes the tests use another cluster than a
local one. Tests of TLS and of rights need users of their own, and always run on a local cluster.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials
from pyspark_pravega.local.accounts import DEFAULT_ACCOUNTS, Account
from pyspark_pravega.local.state import ClusterInfo
from tests.distribution import FIRST, ByFile, Slice
from tests.interop.confluent_registry import run_registry
from tests.interop.debezium_readers import DebeziumReaders
from tests.interop.flink import Flink
from tests.interop.flink_connector import provide_connector
from tests.interop.foreign import Foreign
from tests.interop.kafka_connect import KafkaConnect
from tests.interop.postgres import run_postgres
from tests.scopes import Sweeper
from tests.servers import DIRECTORY, Keeper, expect_tests, fallen, named, set_environment_aside, shared_cluster
from tests.spark_fixtures import ended, functions_left, quick_spark, secure_spark, spark, take_back
from tests.spark_versions import VERSION, SparkVersions, read_changes_by_options
from tests.without_servers import WithoutServers

__all__ = ["quick_spark", "secure_spark", "spark"]

# No generated test depends on the speed of the machine.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

NO_TABLES = ("prn::/scope:*/key-value-table:*,NONE", "prn::/scope:*/stream:*_kvtable,NONE")
MAY_COMMIT = ("prn::/scope:*/stream:pyspark-pravega-commits_kvtable,READ_UPDATE",)
MAY_CHANGE_MORE = (
    "prn::/scope:*-more/key-value-table:pyspark-pravega-catalog,READ_UPDATE",
    "prn::/scope:*-more/stream:pyspark-pravega-catalog_kvtable,READ_UPDATE",
)
ACCOUNTS = {
    **DEFAULT_ACCOUNTS,
    # Reads all streams, but no key-value table.
    "no-tables": Account((*NO_TABLES, "prn::*,READ")),
    # Reads all, and writes the streams `target`: with and without the commit table.
    "sink": Account((*MAY_COMMIT, "prn::/scope:*/stream:target,READ_UPDATE", "prn::*,READ")),
    "appender": Account(("prn::/scope:*/stream:target,READ_UPDATE", "prn::*,READ")),
    # Reads all but the streams `secret`, and changes the views of scopes whose names end in `-more`.
    "views": Account((*MAY_CHANGE_MORE, "prn::/scope:*/stream:secret,NONE", "prn::*,READ")),
    # Reads the key-value tables `machine`, and what scopes keep of columns and views; nothing else.
    "entries": Account(
        (
            "prn::/scope:*/key-value-table:machine,READ_UPDATE",
            "prn::/scope:*/stream:machine_kvtable,READ_UPDATE",
            "prn::/scope:*/key-value-table:pyspark-pravega-catalog,READ",
            "prn::/scope:*/stream:pyspark-pravega-catalog_kvtable,READ",
            "prn::/scope:*/stream:single,READ",
            "prn::/namespace:*/group:single*,READ",
        )
    ),
    # Reads the streams `single` and their schemas, nothing else.
    "single": Account(("prn::/scope:*/stream:single,READ", "prn::/namespace:*/group:single*,READ")),
}


# For the short queries of tests the quick compiler and the simple collector are enough, and leave more of the processor
# to others: in the session of the tests, and in every shell and server that they start. With the quick compiler alone
# Java keeps 48 MB of its code, which queries of a few minutes fill; then it compiles no more.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")

set_environment_aside()

_KEEPER = pytest.StashKey[Keeper]()


class Announcer:
    """Tells of a failure when it happens, in a line: a run that is ended from outside never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = " ".join(str(report.longrepr if crash is None else crash.message).split())
            self._config.get_terminal_writer().line(f"\n{report.nodeid} ({report.when}): {reason[:500]}", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make spark41` and the others keep what they found, and `make check` be quick."""
    parser.addoption("--spark-results", help="a folder for the numbers of tests that passed, by feature")
    parser.addoption("--without-servers", action="store_true", help="only the tests that need nothing but Python")
    parser.addoption("--slice", help="only a slice of the tests, such as 3/20")


def pytest_configure(config: pytest.Config) -> None:
    """Give the run's processes a place for their servers, and leave out what this version of Spark lacks."""
    config.pluginmanager.register(SparkVersions(config.getoption("--spark-results")))
    if config.getoption("--without-servers"):
        config.pluginmanager.register(WithoutServers())
    if config.getoption("--slice"):
        config.pluginmanager.register(Slice(config.getoption("--slice")))
    if VERSION < (4, 2):
        read_changes_by_options()
        # Its Python workers leave sockets to the collector.
        config.addinivalue_line("filterwarnings", "ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning")
    if DIRECTORY not in os.environ:  # set for the processes that pytest-xdist starts
        config.stash[_KEEPER] = Keeper()
        config.pluginmanager.register(Announcer(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers of the run, after all of its processes."""
    if _KEEPER in config.stash:
        config.stash[_KEEPER].close()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Spread the tests over the processes of a run."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the file first that can use the time in which servers start."""
    items.sort(key=lambda item: item.path.name != FIRST)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave modules and tests out of later collections, which take a tenth of the time then."""
    if not session.config.getoption("--slice"):  # which has few tests, and some of the longest
        expect_tests(len(session.items))
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let the session's JVM forget the plans of a file.

    An error of PySpark is in a cycle with the frames that it passed, and so are the data frames in these.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail at once if a server of the run has died, or the session that the test would use."""
    loss = fallen() or (ended() if "spark" in getattr(item, "fixturenames", ()) else None)
    if loss is not None:
        pytest.fail(loss, pytrace=False)


@pytest.fixture(scope="session")
def cluster() -> ClusterInfo:
    """A cluster without TLS, users and watermarks, or the one that the environment names."""
    if controller := named("PRAVEGA_CONTROLLER_URI"):
        return ClusterInfo(
            controller_uri=controller,
            registry_uri=named("PRAVEGA_SCHEMA_REGISTRY_URI"),
            ca_file=named("PRAVEGA_TRUST_STORE"),
        )
    # Tests of watermarks use other clusters. Every ten seconds, this controller would look at each stream.
    properties = {"controller.watermarking.frequency.seconds": "3600"}
    # A server whose storage writer hangs keeps in its log all that is written from then on: some gigabytes.
    return shared_cluster("plain", heap="8g", properties=properties, timeout=240)


@pytest.fixture(scope="session")
def secure_cluster() -> ClusterInfo:
    """A local cluster with TLS and the users admin, writer, reader and nobody, and some for special cases."""
    properties = {"controller.watermarking.frequency.seconds": "1"}
    return shared_cluster("secure", tls=True, accounts=ACCOUNTS, properties=properties, timeout=240)


@pytest.fixture(scope="session")
def quick_cluster() -> ClusterInfo:
    """A local cluster whose controller applies retention without pause, and makes watermarks every second."""
    settings = {
        "controller.retention.frequency.minutes": "0",
        "controller.watermarking.frequency.seconds": "1",
        "writer.flush.threshold.milliseconds": "1000",  # its heap is small
    }
    return shared_cluster("quick", few=True, heap="512m", properties=settings, timeout=240)


@pytest.fixture(scope="session")
def client_config(cluster: ClusterInfo) -> ClientConfig:
    """How to connect to `cluster`."""
    credentials: Credentials | None = None
    if token := named("pravega_client_auth_token"):
        method = named("pravega_client_auth_method") or "Basic"
        credentials = TokenCredentials(method, token)
    return ClientConfig(
        controller_uri=cluster.controller_uri,
        registry_uri=cluster.registry_uri,
        credentials=credentials,
        trust_store=cluster.ca_file,
    )


@pytest.fixture(scope="session")
def pravega(client_config: ClientConfig) -> Iterator[Pravega]:
    """A connection to `cluster`."""
    with connect(client_config) as connected:
        yield connected


@pytest.fixture(scope="session")
def quick_config(quick_cluster: ClusterInfo) -> ClientConfig:
    """How to connect to `quick_cluster`."""
    return ClientConfig(controller_uri=quick_cluster.controller_uri, registry_uri=quick_cluster.registry_uri)


@pytest.fixture(scope="session")
def secure_client_config(secure_cluster: ClusterInfo) -> Callable[..., ClientConfig]:
    """A function from a user's name (admin by default) to how that user connects to `secure_cluster`."""

    def config(user: str = "admin") -> ClientConfig:
        return ClientConfig(
            controller_uri=secure_cluster.controller_uri,
            registry_uri=secure_cluster.registry_uri,
            credentials=BasicCredentials(user, secure_cluster.users[user]),
            trust_store=secure_cluster.ca_file,
        )

    return config


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """The official Java client, to write what we read and to read what we wrote."""
    with Foreign(tmp_path_factory.mktemp("foreign") / "foreign.log") as started:
        yield started


@pytest.fixture(scope="session")
def kafka_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnect]:
    """Kafka Connect's and Debezium's own classes, which write events and say what their values are."""
    with KafkaConnect(tmp_path_factory.mktemp("kafka_connect") / "kafka_connect.log") as started:
        yield started


@pytest.fixture(scope="session")
def debezium_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebeziumReaders]:
    """Flink's, Debezium's and Kafka Connect's own classes, which read changes."""
    with DebeziumReaders(tmp_path_factory.mktemp("debezium_readers") / "debezium_readers.log") as started:
        yield started


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """Flink, which runs batches of its SQL."""
    with Flink(tmp_path_factory.mktemp("flink") / "flink.log") as started:
        yield started


@pytest.fixture(scope="session")
def flink_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """Flink with Pravega's connector, which reads and writes streams."""
    with Flink(tmp_path_factory.mktemp("flink_jobs") / "flink.log", provide_connector()) as started:
        yield started


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The JDBC URL of a PostgreSQL, into which a sink of Debezium writes."""
    with run_postgres(tmp_path_factory.mktemp("postgres") / "postgres.log") as url:
        yield url


@pytest.fixture(scope="session")
def confluent_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a schema registry with Confluent's REST API."""
    with run_registry(tmp_path_factory.mktemp("confluent_registry") / "registry.log") as uri:
        yield uri


@pytest.fixture(scope="session")
def _sweeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeper]:
    sweeper = Sweeper(tmp_path_factory.mktemp("sweeper") / "failures")
    yield sweeper
    # Servers of this run are gone soon.
    sweeper.close(all=named("PRAVEGA_CONTROLLER_URI") is not None)


@pytest.fixture(autouse=True, scope="module")
def _session_is_left_as_it_was() -> Iterator[None]:
    """Other tests share the session, see its confs, and list its functions and views."""
    yield
    take_back()
    assert functions_left() == [], "other tests share the session and list its functions"


@pytest.fixture(autouse=True)
def _scopes_are_dropped(_sweeper: Sweeper) -> None:
    if (failure := _sweeper.failure()) is not None:
        pytest.fail(failure, pytrace=False)


@pytest.fixture
def scope(client_config: ClientConfig, _sweeper: Sweeper) -> Iterator[str]:
    """A new scope of `cluster`; dropped afterwards with all that is in it."""
    yield from _sweeper.scope(client_config)


@pytest.fixture
def quick_scope(quick_config: ClientConfig, _sweeper: Sweeper) -> Iterator[str]:
    """A new scope of `quick_cluster`; dropped afterwards with all that is in it."""
    yield from _sweeper.scope(quick_config)


@pytest.fixture
def secure_scope(secure_client_config: Callable[..., ClientConfig], _sweeper: Sweeper) -> Iterator[str]:
    """A new scope of `secure_cluster`; dropped afterwards with all that is in it."""
    yield from _sweeper.scope(secure_client_config())
