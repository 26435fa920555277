"""The manifests for Kubernetes, put together by kubectl: without a cluster, on the servers of the tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "docker" / "kubernetes"
ENTRYPOINT = (ROOT / "docker" / "entrypoint.sh").read_text()
IMAGE = "registry.example.com/pyspark-pravega:latest"
COMPONENTS: list[tuple[str, ...]] = [(), ("login",), ("executors",), ("login", "executors")]
PATIENCE = 240
Manifest = dict[str, Any]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl to put manifests together")


@pytest.fixture(scope="module")
def put_together(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Manifest]]:
    """A function from components to what `kubectl apply -k` would send."""
    sent: dict[tuple[str, ...], str] = {}

    def build(*components: str) -> list[Manifest]:
        if components not in sent:
            folder = tmp_path_factory.mktemp("manifests") / "-".join(("kubernetes", *components))
            shutil.copytree(MANIFESTS, folder)
            with (folder / "kustomization.yaml").open("a") as file:
                yaml.safe_dump({"components": list(components)}, file)
            done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            sent[components] = done.stdout
        return list(yaml.safe_load_all(sent[components]))

    return build


def of_kind(kind: str, manifests: list[Manifest]) -> dict[str, Manifest]:
    """The manifests of a kind by name, without the digest that kustomize adds to the names of ConfigMaps."""
    found = [manifest for manifest in manifests if manifest["kind"] == kind]
    names = [re.sub(r"-[a-z0-9]{10}$", "", manifest["metadata"]["name"]) for manifest in found]
    return dict(zip(names, found, strict=True))


def container(stateful_set: Manifest) -> Manifest:
    """The only container of a pod."""
    (only,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return dict(only)


def arguments(stateful_set: Manifest, **variables: str) -> list[str]:
    """What a container is started with: Kubernetes puts variables in place of $(NAME)."""
    return [re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], text) for text in container(stateful_set)["args"]]


def confs(words: list[str]) -> dict[str, str]:
    """The confs among arguments."""
    pairs = [word.removeprefix("--conf=").partition("=") for word in words if word.startswith("--conf=")]
    return {key: text for key, _, text in pairs}


def spark_defaults(text: str) -> dict[str, str]:
    """The confs of a spark-defaults.conf."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {key: value.strip() for key, value in (line.split(maxsplit=1) for line in lines)}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("components", COMPONENTS, ids="-".join)
def test_manifests_fit_the_schemas(
    put_together: Callable[..., list[Manifest]], components: tuple[str, ...], version: str
) -> None:
    manifests = put_together(*components)
    assert set(of_kind("StatefulSet", manifests)) == {"thriftserver", "connect-server", "stream"}
    for manifest in manifests:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_a_field_that_kubernetes_does_not_know_is_found(put_together: Callable[..., list[Manifest]]) -> None:
    stream = of_kind("StatefulSet", put_together())["stream"]
    stream["spec"]["template"]["spec"]["restartpolicy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError, match="restartpolicy"):
        kubernetes_validate.validate(stream, "1.37", strict=True)


@pytest.mark.parametrize("components", COMPONENTS, ids="-".join)
def test_what_manifests_name_is_there(put_together: Callable[..., list[Manifest]], components: tuple[str, ...]) -> None:
    """ConfigMaps with their digests, volumes, services and their ports."""
    manifests = put_together(*components)
    maps = {manifest["metadata"]["name"] for manifest in of_kind("ConfigMap", manifests).values()}
    services = of_kind("Service", manifests)
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"spark"}
    for name, stateful_set in of_kind("StatefulSet", manifests).items():
        pod, spark = stateful_set["spec"]["template"]["spec"], container(stateful_set)
        assert spark["image"] == IMAGE
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        claims = {claim["metadata"]["name"] for claim in stateful_set["spec"]["volumeClaimTemplates"]}
        assert {mount["name"] for mount in spark["volumeMounts"]} == claims | set(volumes)
        named = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
        assert named | {source["configMapRef"]["name"] for source in spark["envFrom"]} <= maps
        governing = services[stateful_set["spec"]["serviceName"]]["spec"]
        assert governing["clusterIP"] == "None" and governing["publishNotReadyAddresses"] is True
        labels = stateful_set["spec"]["template"]["metadata"]["labels"]
        specs = [service["spec"] for service in services.values()]
        chosen = [spec for spec in specs if spec["selector"].items() <= labels.items()]
        assert governing in chosen and len(chosen) == (1 if name == "stream" else 2)
        open_ports = {port["name"] for port in spark["ports"]}
        for service in chosen:
            assert service is governing or {port["targetPort"] for port in service["ports"]} <= open_ports


@pytest.mark.parametrize("components", COMPONENTS, ids="-".join)
def test_pods_fit_the_restricted_standard(
    put_together: Callable[..., list[Manifest]], components: tuple[str, ...]
) -> None:
    """Those of Kubernetes' pod security standards, and one pod at a time."""
    manifests = put_together(*components)
    sets = list(of_kind("StatefulSet", manifests).values())
    pods = [stateful_set["spec"]["template"]["spec"] for stateful_set in sets]
    if "executors" in components:
        pods.append(yaml.safe_load(of_kind("ConfigMap", manifests)["spark-conf"]["data"]["executor-pod.yaml"])["spec"])
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in pod["containers"]:
            assert each["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        # A token of Kubernetes is only where pods are made.
        assert pod["automountServiceAccountToken"] is ("executors" in components and pod is not pods[-1])
    assert [stateful_set["spec"]["replicas"] for stateful_set in sets] == [1, 1, 1]


def test_probes_ask_for_the_ports_of_the_image(put_together: Callable[..., list[Manifest]]) -> None:
    ports = {"thriftserver": "THRIFT_PORT", "connect-server": "CONNECT_PORT"}
    for name, stateful_set in of_kind("StatefulSet", put_together()).items():
        spark = container(stateful_set)
        assert re.search(rf"^  (.* \| )?{re.escape(spark['args'][0])}( \| .*)?\)$", ENTRYPOINT, re.MULTILINE)
        probes = [probe["exec"]["command"] for key, probe in spark.items() if key.endswith("Probe")]
        assert len(probes) == (1 if name == "stream" else 3)
        listening = re.search(rf"\$\{{{ports[name]}:-(\d+)\}}", ENTRYPOINT)[1] if name in ports else "4040"
        asked = [listening] if listening == "4040" else [listening, "4040"]
        assert probes == [["/opt/pyspark-pravega/entrypoint.sh", "answers", *asked]] * len(probes)
        assert {int(port) for port in asked} <= {port["containerPort"] for port in spark["ports"]}


def test_a_server_keeps_its_directory_and_a_stream_its_checkpoints(put_together: Callable[..., list[Manifest]]) -> None:
    manifests = put_together()
    script = of_kind("ConfigMap", manifests)["stream"]["data"]["stream.sql"]
    for name, stateful_set in of_kind("StatefulSet", manifests).items():
        (claim,) = stateful_set["spec"]["volumeClaimTemplates"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container(stateful_set)["volumeMounts"]}
        kept = mounts[claim["metadata"]["name"]]
        if name == "stream":
            assert f"SET pravega.stream.checkpoint = '{kept}';" in script
        else:
            assert kept == f"/home/spark/{name}" and f"enter_own_directory {name}\n" in ENTRYPOINT


def pod_of_spark(confs: Mapping[str, str], *what: str) -> Manifest:
    """The pod that Spark makes of confs: of an "executor", or of a "driver" of a program."""
    program = [sys.executable, str(Path(__file__).with_name("spark_pods.py")), *what]
    done = subprocess.run(program, input=json.dumps(confs), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pod: Manifest = yaml.safe_load(done.stdout)
    return pod


def read_by(word: str) -> set[str]:
    """The variables of Spark that the image's entry point needs for a word."""
    branch = re.search(rf"^  {word}\)$(.*?)^    ;;$", ENTRYPOINT, re.MULTILINE | re.DOTALL)[1]
    return set(re.findall(r"\$(SPARK_(?!HOME)\w*)", branch))


POD_IP = "192.0.2.9"
"""What Kubernetes fills in from the pod, in these tests."""


def started_as(pod: Manifest, word: str, directory: Path) -> list[str]:
    """The arguments with which the image's entry point starts Java, or spark-submit, in the container of a pod."""
    for program in ("bin/java", "bin/spark-submit"):
        path = directory / program
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        path.chmod(0o755)
    (spark,) = pod["spec"]["containers"]
    assert spark["args"][0] == word
    given = {each["name"]: str(each.get("value", POD_IP)) for each in spark["env"]}
    places = {"JAVA_HOME": str(directory), "SPARK_HOME": str(directory), "HOME": str(directory)}
    entrypoint = str(ROOT / "docker" / "entrypoint.sh")
    environment = {**os.environ, **given, **places}
    done = subprocess.run([entrypoint, *spark["args"]], text=True, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def executor(put_together: Callable[..., list[Manifest]], tmp_path: Path) -> Manifest:
    """The pod that Spark makes for the first executor of the stream, with a login."""
    manifests = put_together("login", "executors")
    files = of_kind("ConfigMap", manifests)["spark-conf"]["data"]
    stream = of_kind("StatefulSet", manifests)["stream"]
    names = {"POD_NAME": "stream-0", "POD_NAMESPACE": "spark", "POD_APPLICATION": "stream", "POD_IP": "192.0.2.7"}
    given = {
        **spark_defaults(files["spark-defaults.conf"]),
        **confs(arguments(stream, **names, PRAVEGA_USERNAME="ann")),
    }
    assert given["spark.driver.host"] == "stream-0.stream-driver.spark.svc"
    (mount,) = [each["mountPath"] for each in container(stream)["volumeMounts"] if each["name"] == "conf"]
    template = tmp_path / "executor-pod.yaml"
    assert given["spark.kubernetes.executor.podTemplateFile"] == f"{mount}/{template.name}"
    template.write_text(files[template.name])
    given["spark.kubernetes.executor.podTemplateFile"] = str(template)
    return pod_of_spark(given, "executor")


def test_spark_makes_pods_for_executors(executor: Manifest, tmp_path: Path) -> None:
    """Spark's own classes make the pod of the confs; it fits the schema, the image and the driver."""
    assert kubernetes_validate.validate(executor, "1.37", strict=True) == "1.37"
    assert executor["metadata"]["ownerReferences"][0]["name"] == "stream-0"
    spec = executor["spec"]
    (spark,) = spec["containers"]
    assert (spark["name"], spark["image"], spark["args"]) == ("spark", IMAGE, ["executor"])
    assert spec["securityContext"]["runAsNonRoot"] is True
    variables = {variable["name"]: variable.get("value") for variable in spark["env"]}
    assert variables["SPARK_DRIVER_URL"] == "spark://CoarseGrainedScheduler@192.0.2.7:7078"
    mounts = {mount["mountPath"]: mount["name"] for mount in spark["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes[mounts["/etc/pravega"]]["secret"]["secretName"] == "pravega-ca"
    claim = volumes[mounts["/home/spark/checkpoints"]]["persistentVolumeClaim"]
    assert claim["claimName"] == "shared-checkpoints-stream-0"
    assert len(read_by("executor")) > 5 and read_by("executor") <= set(variables)
    printed = started_as(executor, "executor", tmp_path)
    class_path = printed[printed.index("-cp") + 1].split(":")
    assert class_path == [variables.get("SPARK_CONF_DIR") or f"{tmp_path}/conf", f"{tmp_path}/jars/*", os.getcwd()]
    options = dict(zip(printed[-14::2], printed[-13::2], strict=True))
    assert options == {
        "--driver-url": variables["SPARK_DRIVER_URL"],
        "--executor-id": variables["SPARK_EXECUTOR_ID"],
        "--cores": variables["SPARK_EXECUTOR_CORES"],
        "--app-id": variables["SPARK_APPLICATION_ID"],
        "--hostname": POD_IP,
        "--resourceProfileId": variables["SPARK_RESOURCE_PROFILE_ID"],
        "--podName": POD_IP,
    }
    assert printed[-15] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    java_options = [text for name, text in sorted(variables.items()) if name.startswith("SPARK_JAVA_OPT_")]
    assert java_options and sorted(printed[: len(java_options)]) == sorted(java_options)
    assert "-Xmx2g" in printed or "-Xmx2048m" in printed


def test_spark_makes_a_pod_for_a_driver_in_cluster_mode(tmp_path: Path) -> None:
    """The command is that of the documentation."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    section = page[page.index("### In cluster mode") :]
    command = re.search(r"^    (spark-submit (?:.*\\\n)*.*)$", section, re.MULTILINE)[1]
    program, *options, script = shlex.split(command.replace("\\\n", ""))
    names = {"--master": "spark.master", "--deploy-mode": "spark.submit.deployMode", "--jars": "spark.jars"}
    names["--name"] = "spark.app.name"
    given = {}
    for option, text in zip(options[::2], options[1::2], strict=True):
        key, _, value = text.partition("=") if option == "--conf" else (names[option], "", text)
        given[key] = value
    assert (program, given["spark.jars"]) == ("spark-submit", "local:///opt/pyspark-pravega/adapter.jar")
    pod = pod_of_spark(given, "driver", script)
    assert kubernetes_validate.validate(pod, "1.37", strict=True) == "1.37"
    (driver,) = pod["spec"]["containers"]
    words = ["driver", "--properties-file", "/opt/spark/conf/spark.properties"]
    assert driver["args"] == [*words, "--class", "org.apache.spark.deploy.PythonRunner", script]
    printed = started_as(pod, "driver", tmp_path)
    address = [
        "--conf",
        f"spark.driver.bindAddress={POD_IP}",
        "--conf",
        f"spark.executorEnv.SPARK_DRIVER_POD_IP={POD_IP}",
    ]
    assert printed == [*address, "--deploy-mode", "client", *driver["args"][1:]]
    variables = {variable["name"]: variable for variable in driver["env"]}
    assert read_by("driver") == {"SPARK_DRIVER_BIND_ADDRESS"} and read_by("driver") <= set(variables)
    password = {"name": "pravega-login", "key": "password"}
    assert variables["PRAVEGA_PASSWORD"]["valueFrom"]["secretKeyRef"] == password
    assert "/etc/pravega" in {mount["mountPath"] for mount in driver["volumeMounts"]}


@pytest.fixture
def fresh_name() -> str:
    """A namespace that no other test uses."""
    return f"kubernetes{uuid.uuid4().hex[:8]}"


@pytest.fixture
def started(
    put_together: Callable[..., list[Manifest]], secure_cluster: ClusterInfo, fresh_name: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The streaming script as its pod starts it, with a login: the words, variables and files of the manifests."""
    manifests = put_together("login")
    maps = of_kind("ConfigMap", manifests)
    stream = of_kind("StatefulSet", manifests)["stream"]
    script, conf = tmp_path / "stream.sql", tmp_path / "conf"
    text: str = maps["stream"]["data"]["stream.sql"].replace("pravega.iot", f"pravega.{fresh_name}")
    assert "'/home/spark/checkpoints'" in text
    script.write_text(text.replace("/home/spark/checkpoints", str(tmp_path / "checkpoints")))
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(maps["spark-conf"]["data"]["spark-defaults.conf"])
    login = {("pravega-login", "username"): "admin", ("pravega-login", "password"): secure_cluster.users["admin"]}
    environment = {
        **_variables(stream, login),
        "PRAVEGA_CONTROLLER_URI": secure_cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(secure_cluster.registry_uri),
    }
    assert environment["PRAVEGA_TRUST_STORE"] == "/etc/pravega/ca.pem"
    environment |= {"PRAVEGA_TRUST_STORE": str(secure_cluster.ca_file), "SPARK_CONF_DIR": str(conf)}
    words = [word.replace("/etc/stream", str(tmp_path)) for word in arguments(stream, **environment)]
    # The machine of the tests has less memory for it than the pod, and may have its web interface's port in use.
    words += ["--driver-memory", "512m", "--conf", "spark.ui.enabled=false"]
    assert secure_cluster.users["admin"] not in shlex.join(words)
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "pyspark_pravega", *words],
            env={**os.environ, **environment},
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    yield program
    if program.poll() is None:
        program.kill()
        program.wait()


@pytest.mark.timeout(600)
def test_the_script_runs_with_a_login(
    started: subprocess.Popen[bytes], secure_spark: SparkSession, fresh_name: str, tmp_path: Path
) -> None:
    namespace, log = f"secure.{fresh_name}", tmp_path / "log"
    deadline = time.monotonic() + PATIENCE

    def wait_for(condition: Callable[[], bool]) -> None:
        while not condition():
            assert started.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(1)

    def names() -> set[str]:
        if not secure_spark.sql(f"SHOW NAMESPACES IN secure LIKE '{fresh_name}'").count():
            return set()
        return {row.tableName for row in secure_spark.sql(f"SHOW TABLES IN {namespace}").collect()}

    try:
        wait_for(lambda: {"sensor", "alerts"} <= names())
        rows = "(1, TIMESTAMP '2026-01-01 00:00:00', 29.5), (2, TIMESTAMP '2026-01-01 00:00:01', 30.5)"
        secure_spark.sql(f"INSERT INTO {namespace}.sensor VALUES {rows}")
        wait_for(lambda: secure_spark.table(f"{namespace}.alerts").count() > 0)
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE) == 143, log.read_text()
        assert [tuple(row) for row in secure_spark.sql(f"SELECT sensorId, temp FROM {namespace}.alerts").collect()] == [
            (2, 30.5)
        ]
    finally:
        secure_spark.sql(f"DROP NAMESPACE IF EXISTS {namespace} CASCADE")


def _variables(stateful_set: Manifest, secrets: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """The container's own variables, those of secrets by the secret's name and key."""
    found = {}
    for variable in container(stateful_set)["env"]:
        reference = variable.get("valueFrom", {}).get("secretKeyRef", {})
        found[variable["name"]] = secrets[reference["name"], reference["key"]] if reference else variable["value"]
    return found
