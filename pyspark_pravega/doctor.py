"""`pyspark-pravega doctor`: looks at everything that must fit together, and says what to do where it does not."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega import __version__, native
from pyspark_pravega.adapter import adapter_jar, adapter_manifest
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import (
    InvalidOptionError,
    PermissionDeniedError,
    PravegaError,
    ScopeNotFoundError,
    StreamNotFoundError,
)
from pyspark_pravega.launch import find_spark_home
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import is_internal

if TYPE_CHECKING:
    from pyspark_pravega.client.config import ClientConfig, Endpoint
    from pyspark_pravega.client.controller.controller import Controller

_OLDEST_JAVA = 17
_PROGRAM_TIMEOUT = 60.0  # seconds: another interpreter that hangs must not hang the doctor
_RETRY_TIMEOUT = "5s"
_STREAMS_LOOKED_AT = 20
_SEGMENTS_PER_STREAM = 8


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `advice` says what to do when it is not good."""

    subject: str
    good: bool
    text: str
    advice: str = ""


def examine(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at everything; one finding after another, as the slow ones take seconds.

    `settings` are options of a catalog's conf, which count before the environment.
    """
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        lambda: _spark(environment),
        lambda: _java(environment),
        _jar,
        _native,
        lambda: _worker_python(environment),
        lambda: _servers(settings, environment),
    ]
    for check in checks:
        yield from check()


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(
        "Python",
        sys.version_info >= (3, 11),
        f"{version} ({sys.executable})",
        "" if sys.version_info >= (3, 11) else "Spark 4.3 needs Python 3.11 or newer.",
    )


def _packages() -> Iterator[Finding]:
    try:
        requirements = metadata.requires("pyspark-pravega") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "Packages",
            False,
            "pyspark-pravega is not installed here, only importable",
            "In a source checkout run `make setup`; otherwise `pip install pyspark-pravega`.",
        )
        return
    wrong, found = [], []
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*([^;]*)(;.*extra.*)?", requirement)
        if match is None or match[3]:
            continue
        name, wanted = match[1], match[2].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name}{wanted} is missing")
            continue
        found.append(f"{name} {version}")
        if not _fits(version, wanted):
            wrong.append(f"{name} is {version}, needed is {wanted}")
    if wrong:
        advice = f"Run: {sys.executable} -m pip install --upgrade pyspark-pravega"
        yield Finding("Packages", False, "; ".join(wrong), advice)
    else:
        yield Finding("Packages", True, ", ".join(found))


def _fits(version: str, wanted: str) -> bool:
    """Compare release numbers, which is all that our own requirements use."""
    have = _numbers(version)
    for bound in filter(None, wanted.split(",")):
        match = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", bound)
        if match is None:
            continue
        limit = _numbers(match[2])
        if (match[1] == ">=" and have < limit) or (match[1] == "<" and have >= limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))


def _spark(environment: Mapping[str, str]) -> Iterator[Finding]:
    import pyspark

    wanted = pyspark.__version__
    try:
        home = find_spark_home(environment)
    except PravegaError as error:
        yield Finding("Spark", False, str(error), "")
        return
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    version = re.sub(r".*-([\d.]+\d).*\.jar", r"\1", jars[0].name) if jars else "unknown"
    good = _numbers(version)[:2] == _numbers(wanted)[:2]
    yield Finding(
        "Spark",
        good,
        f"{version} ({home})",
        "" if good else f"The installed pyspark is {wanted}. Unset SPARK_HOME, or let it name a Spark {wanted}.",
    )


def _java(environment: Mapping[str, str]) -> Iterator[Finding]:
    advice = "Install a Java runtime 17 or 21 and put it on PATH, or let JAVA_HOME name it."
    home = environment.get("JAVA_HOME")
    # Spark's scripts take JAVA_HOME without looking further, so a wrong one counts even when PATH has a Java.
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if found is None or not os.access(found, os.X_OK):
        yield Finding("Java", False, f"none at {found}" if found else "not on PATH, and JAVA_HOME is not set", advice)
        return
    shown = subprocess.run([found, "-version"], text=True, capture_output=True, timeout=_PROGRAM_TIMEOUT).stderr
    match = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', shown)
    good = match is not None and int(match[1]) >= _OLDEST_JAVA
    yield Finding("Java", good, f"{match[1] + match[2] if match else 'unknown'} ({found})", "" if good else advice)


def _jar() -> Iterator[Finding]:
    import pyspark

    try:
        manifest = adapter_manifest()
    except PravegaError as error:
        yield Finding("Adapter", False, str(error), "")
        return
    version, spark = manifest.get("Implementation-Version", "?"), manifest.get("Spark-Version", "?")
    good = version == __version__ and _numbers(spark)[:2] == _numbers(pyspark.__version__)[:2]
    yield Finding(
        "Adapter",
        good,
        f"{version} for Spark {spark} ({adapter_jar()})",
        ""
        if good
        else f"It must be {__version__} for Spark {pyspark.__version__}. Install pyspark-pravega again "
        "(in a checkout: `make jar`).",
    )


def _native() -> Iterator[Finding]:
    """Not having it is no mistake, only slower."""
    found = native.status()
    yield Finding("Native decoder", True, found.text if found.active else f"{found.text}. {found.advice}")


_LOOK = """\
import pkgutil, pyspark_pravega, pyspark_pravega.client.controller, cramjam, pyarrow
print(pyspark_pravega.__version__, any(m.name == "pyspark_pravega" for m in pkgutil.iter_modules()))
"""


def _worker_python(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Spark looks for Python data sources, and runs them, with PYSPARK_PYTHON."""
    python = environment.get("PYSPARK_PYTHON") or sys.executable
    advice = f"Unset PYSPARK_PYTHON, or let it name a Python that has pyspark-pravega {__version__}."
    try:
        shown = subprocess.run(
            [python, "-c", _LOOK],
            text=True,
            capture_output=True,
            timeout=_PROGRAM_TIMEOUT,
            env=dict(environment),
            cwd=tempfile.gettempdir(),  # `python -c` would find a checkout in the current directory
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Python of Spark's workers", False, f"{python} does not run: {error}", advice)
        return
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no output"])[-1]
        yield Finding("Python of Spark's workers", False, f"{python}: {last}", advice)
    elif shown.stdout.split() != [__version__, "True"]:
        yield Finding(
            "Python of Spark's workers",
            False,
            f"{python}: pyspark-pravega {shown.stdout.split()[0]}, found by Spark's search: {shown.stdout.split()[1]}",
            advice,
        )
    else:
        yield Finding("Python of Spark's workers", True, f"{python} has pyspark-pravega {__version__}")


def _servers(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Finding]:
    from pyspark_pravega.client.controller.controller import Controller
    from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
    from pyspark_pravega.datasource.connection import client_config

    quick = {"retry-timeout": _RETRY_TIMEOUT, "request-timeout": _RETRY_TIMEOUT}
    try:
        options = o.resolve(conf={**quick, **settings}, env=environment)
        uri, registry_uri = options.get(o.CONTROLLER_URI), options.get(o.SCHEMA_REGISTRY_URI)
        if uri is None:
            yield Finding(
                "Controller",
                False,
                "not set",
                "Set PRAVEGA_CONTROLLER_URI=tcp://host:9090 (tls:// with TLS), or run one here: "
                'pyspark-pravega local start; eval "$(pyspark-pravega local env)"',
            )
            return
        config = client_config(options)
    except InvalidOptionError as error:
        yield Finding("Connection", False, str(error), "")
        return
    with Controller(config) as controller:
        answer = _ask("Controller", uri, lambda: f"{len(controller.list_scopes())} scopes")
        yield answer
        if answer.good:
            yield from _segment_stores(controller, config)
    if registry_uri is None:
        yield Finding(
            "Schema registry",
            False,
            "not set",
            "Set PRAVEGA_SCHEMA_REGISTRY_URI=http://host:9092 (https:// with TLS). Without it only tables with "
            "'framing'='none' work.",
        )
        return
    with SchemaRegistry(config, None) as registry:
        yield _ask("Schema registry", registry_uri, lambda: f"{len(registry.groups())} groups")


def _segment_stores(controller: Controller, config: ClientConfig) -> Iterator[Finding]:
    """Greet the segment stores that hold streams of this user: data goes to them, not through the controller."""
    try:
        streams = itertools.islice(_streams(controller), _STREAMS_LOOKED_AT)
        endpoints = {endpoint for stream in streams for endpoint in _stores_of(controller, stream)}
    except PravegaError as error:
        yield Finding("Segment store", False, str(error), _STORE_ADVICE)
        return
    if not endpoints:
        yield Finding("Segment store", True, "not checked: there is no stream that this user may read")
    for endpoint in sorted(endpoints):
        yield greet(endpoint, config)


def _streams(controller: Controller) -> Iterator[Stream]:
    """Yield the streams that this user may see; Pravega's own, which serve as well, come last."""
    try:
        scopes = sorted(controller.list_scopes(), key=lambda scope: (is_internal(scope), scope))
    except PermissionDeniedError:
        return
    for scope in scopes:
        try:
            names = controller.list_streams(scope)
        except (PermissionDeniedError, ScopeNotFoundError):  # dropped just now
            continue
        yield from (Stream(scope, name) for name in names)


def _stores_of(controller: Controller, stream: Stream) -> set[Endpoint]:
    """Return where the first segments of a stream are; nothing when the user may not know, or it is dropped."""
    try:
        segments = list(controller.head(stream).positions)[:_SEGMENTS_PER_STREAM]
        return {controller.segment_location(stream, segment_id) for segment_id in segments}
    except (PermissionDeniedError, StreamNotFoundError):
        return set()


def greet(endpoint: Endpoint, config: ClientConfig) -> Finding:
    """Connect to a segment store and exchange greetings, as every task that reads or writes does."""
    from pyspark_pravega.client.segments.connection import Connection
    from pyspark_pravega.client.tls import ssl_context

    try:
        context = ssl_context(config) if config.tls else None
        Connection.open(endpoint, context, config.request_timeout).close()
    except PravegaError as error:
        return Finding("Segment store", False, f"{endpoint}: {error}", _TLS_ADVICE.get(error.condition, _STORE_ADVICE))
    return Finding("Segment store", True, f"{endpoint} greets")


def _ask(subject: str, uri: str, question: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, f"{uri} answers: {question()}")
    except PermissionDeniedError as error:
        return Finding(subject, True, f"{uri} knows this user, who may not list everything ({error.message})")
    except PravegaError as error:
        return Finding(subject, False, f"{uri}: {error}", _ADVICE.get(error.condition, ""))


_STORE_ADVICE = (
    "The controller gives this address to every client. It must lead to the segment store from here and from every "
    "executor: set the address that the store publishes (HOST_IP of the standalone container, "
    "pravegaservice.service.published.host.nameOrIp and .port elsewhere), and open its port."
)
_ADVICE = {
    "PRAVEGA_SERVER_UNAVAILABLE": "Is the server running, and the address right? Does it want TLS (tls://, https://)?",
    "PRAVEGA_TIMEOUT": "Is the address right, and no firewall in between? Does a plain server get a TLS address?",
    "PRAVEGA_AUTHENTICATION_FAILED": "Set pravega_client_auth_method=Basic and pravega_client_auth_token to base64 of "
    "user:password, or security.username and security.password in the catalog's conf.",
    "PRAVEGA_TLS_FAILED": "Set PRAVEGA_TRUST_STORE to a PEM file with the authority that signed the server's "
    "certificate; when only the host name differs, security.validate-hostname=false in the catalog's conf.",
}
_TLS_ADVICE = {"PRAVEGA_TLS_FAILED": _ADVICE["PRAVEGA_TLS_FAILED"]}
