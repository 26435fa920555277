"""The image, and what compose.yaml says, on a real Docker engine: `make image-test`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docker.engine import IMAGE, NOTEBOOK, ROOT, Stack, docker
from tests.docker.test_pins import pins

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

COMPOSE, PERSISTENT = "docker/compose.yaml", "docker/compose.persistent.yaml"
ANY_USER = ("--user", "12345:0", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
OLDER = f"{IMAGE}:spark-4.2"
ROWS = "(1, 'Ann'), (2, 'Bob')"


@pytest.fixture(scope="module")
def images() -> None:
    """Both images, built from this checkout."""
    docker("build", "--file", "docker/Dockerfile", "--tag", IMAGE, ".")
    docker("build", "--file", "docker/Dockerfile", "--target", "notebook", "--tag", NOTEBOOK, ".")


@pytest.fixture(scope="module")
def stack(images: None) -> Iterator[Stack]:
    """The services of compose.yaml that have no profile, and a table with two rows."""
    services = Stack("pyspark-pravega-test", [COMPOSE])
    try:
        services.up()
        services.jdbc("CREATE NAMESPACE pravega.tests; CREATE TABLE pravega.tests.person (id INT, name STRING)")
        services.jdbc(f"INSERT INTO pravega.tests.person VALUES {ROWS}")
        yield services
    finally:
        services.down("--volumes")


def test_the_native_decoder_is_in_it(images: None) -> None:
    """Once, and used."""
    program = "from pyspark_pravega import native; print(native.get_status().active)"
    assert docker("run", "--rm", IMAGE, "python", "-c", program).strip() == "True"
    libraries = docker("run", "--rm", "--user", "0", IMAGE, "find", "/usr", "/opt", "-name", "_native*.so").split()
    assert libraries == ["/usr/local/lib/python3.12/site-packages/pyspark_pravega/native/_native.abi3.so"]


def test_it_has_the_versions_that_are_pinned(images: None) -> None:
    frozen = pins(docker("run", "--rm", IMAGE, "pip", "freeze"))
    pinned = pins((ROOT / "docker" / "requirements.txt").read_text())
    assert pinned.items() <= frozen.items()
    # Ours came as a file, which `pip freeze` tells in another form.
    assert frozen.keys() == pinned.keys()


def test_an_image_with_another_spark() -> None:
    docker("build", "--file", "docker/Dockerfile", "--build-arg", "SPARK_VERSION=4.2.1", "--tag", OLDER, ".")
    program = "import pyspark; print(pyspark.__version__)"
    assert docker("run", "--rm", OLDER, "python", "-c", program).strip() == "4.2.1"
    assert "adapter.jar" in docker("run", "--rm", OLDER, "pyspark-pravega", "jar")


def test_up_waits_until_all_are_ready(stack: Stack) -> None:
    assert stack.states() == dict.fromkeys(("pravega", "schema-registry", "thriftserver"), "healthy")
    published = stack.compose("ps", "--format", "{{.Ports}}")
    assert f"127.0.0.1:{stack.ports['JDBC_PORT']}->10000" in published and "0.0.0.0" not in published


def test_rows_are_there_over_jdbc_and_in_the_shell_beside_the_server(stack: Stack) -> None:
    """The shell has a metastore of its own, or it would end where the server runs."""
    statement = "SELECT concat(name, '-', id) FROM pravega.tests.person ORDER BY id"
    for answer in (stack.jdbc(statement), stack.sql(statement)):
        assert re.findall(r"\w+-\d", answer) == ["Ann-1", "Bob-2"]


def test_doctor_finds_all_well(stack: Stack) -> None:
    answer = stack.compose("exec", "-T", "thriftserver", "pyspark-pravega", "doctor")
    assert "All is well." in answer and re.search(r"ok +Native decoder", answer)


def test_the_demo_runs(stack: Stack) -> None:
    assert re.search(
        r"-- \d+ days of [\d,]+ readings from the stream, \d+ from the batch: \d+ are equal",
        stack.compose("run", "--rm", "-T", "demo"),
    )


@pytest.mark.parametrize("options", [("--user", "12345:0"), ANY_USER], ids=["any user", "nothing to write to"])
def test_any_user_runs_queries(stack: Stack, options: tuple[str, ...]) -> None:
    statement = "SELECT concat('sum ', sum(id)) FROM pravega.tests.person"
    assert "sum 3" in stack.run(*options, IMAGE, "sql", "-e", statement)


def test_the_image_serves_as_a_standalone_cluster(stack: Stack) -> None:
    package = "org.apache.spark.deploy"
    started = []
    try:
        for name, words in (
            ("master", ["spark-class", f"{package}.master.Master", "--host", "spark-master"]),
            ("worker", ["spark-class", f"{package}.worker.Worker", "--cores", "2", "spark://spark-master:7077"]),
        ):
            where = ["--network", f"{stack.name}_default", "--hostname", f"spark-{name}", "--user", "12345:0"]
            started.append(docker("run", "--detach", *where, "--network-alias", f"spark-{name}", IMAGE, *words).strip())
        statement = "SELECT concat('sum ', sum(id)) FROM pravega.tests.person"
        answer = stack.run(
            "--hostname", "spark-driver", "--network-alias", "spark-driver", IMAGE,
            "sql", "--master", "spark://spark-master:7077", "--conf", "spark.driver.host=spark-driver", "-e", statement,
        )  # fmt: skip
        assert "sum 3" in answer
        # The worker's own directory has what its executor wrote.
        assert "stderr" in docker("exec", started[1], "sh", "-c", "ls /home/spark/work/app-*/*")
    finally:
        for container in started:
            docker("rm", "--force", container)


def test_a_connect_server_joins_them(stack: Stack) -> None:
    stack.up("connect-server", profile="connect")
    assert stack.states()["connect-server"] == "healthy"
    program = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("sc://connect-server:15002").getOrCreate()
print("sum", spark.sql("SELECT sum(id) FROM pravega.tests.person").first()[0])
"""
    assert "sum 3" in stack.run(NOTEBOOK, "python", "-c", program)


def test_the_tutorial_runs_in_the_notebook_server(stack: Stack) -> None:
    stack.up("notebook", profile="notebook")
    assert stack.states()["notebook"] == "healthy"
    assert "token=" in stack.compose("--profile", "notebook", "logs", "notebook")
    command = ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--output", "/tmp/done.ipynb"]
    stack.compose("--profile", "notebook", "exec", "-T", "notebook", *command, "notebooks/tutorial.ipynb")


def test_servers_end_at_once_when_told_to(stack: Stack) -> None:
    """As Kubernetes asks: SIGTERM, then patience. Docker kills after ten seconds, which the exit code 137 shows."""
    stack.compose("stop", "thriftserver")
    identity = stack.compose("ps", "--all", "--quiet", "thriftserver").strip()
    assert docker("inspect", "--format", "{{.State.ExitCode}}", identity).strip() == "143"
    stack.up()


def test_a_pravega_that_was_restarted_serves_the_servers_that_stayed(stack: Stack) -> None:
    """Its data is gone, as compose.yaml says."""
    stack.compose("restart", "pravega")
    stack.up()
    assert stack.states()["schema-registry"] == "healthy"
    stack.jdbc("CREATE NAMESPACE pravega.tests; CREATE TABLE pravega.tests.person (id INT, name STRING)")
    stack.jdbc(f"INSERT INTO pravega.tests.person VALUES {ROWS}")
    assert "sum 3" in stack.jdbc("SELECT concat('sum ', sum(id)) FROM pravega.tests.person")


def test_data_outlives_the_containers_of_a_persistent_pravega(stack: Stack) -> None:
    """And the metastore of Spark's own catalog those of the Thrift server."""
    stack.compose("stop")
    lasting = Stack("pyspark-pravega-test-lasting", [COMPOSE, PERSISTENT])
    try:
        lasting.up()
        lasting.jdbc("CREATE NAMESPACE pravega.kept; CREATE TABLE pravega.kept.person (id INT, name STRING)")
        lasting.jdbc(f"INSERT INTO pravega.kept.person VALUES {ROWS}; CREATE TABLE spark_catalog.default.own (id INT)")
        lasting.down()
        lasting.up()
        assert "sum 3" in lasting.jdbc("SELECT concat('sum ', sum(id)) FROM pravega.kept.person")
        assert "own" in lasting.jdbc("SHOW TABLES IN spark_catalog.default")
        lasting.jdbc("INSERT INTO pravega.kept.person VALUES (4, 'Cid')")
        assert "sum 7" in lasting.jdbc("SELECT concat('sum ', sum(id)) FROM pravega.kept.person")
    finally:
        lasting.down("--volumes")
