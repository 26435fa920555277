"""The two server programs: their settings files, their command lines and their logs.

Settings go into files with mode 0600, never on the command line, where every user of the machine could read the
passwords among them. For the same reason the servers' own logging of their settings (at INFO) is off.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from .accounts import SERVER_USER, Account, find_server_password, format_password_file
from .directories import Certificates, create_private_directory, write_private
from .java import Java
from .ports import Ports
from .server_class_archive import find_server_archive, list_recording_options
from .state import ClusterInfo

CACHE_SIZE = "pravegaservice.cache.size.max"
"""Pravega's setting for the bytes of its cache."""

CACHE_BYTES = 512 << 20

_REGISTRY_HEAP = "128m"

_TAIL_LINES = 30
_TAIL_BYTES = 64_000
"""Limits of the end of a log in messages."""

_PORT_IN_USE = re.compile(rb"Address already in use|java\.net\.BindException|Failed to bind to")
"""The servers' only sign that another program has one of their ports, in their logs."""

_STACK_FRAME = re.compile(r"\s+(at |\.\.\. \d+)")

_LOGGING = """<configuration>
  <appender name="file" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>{file}</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>{file}.%i</fileNamePattern><minIndex>1</minIndex><maxIndex>2</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>10MB</maxFileSize>
    </triggeringPolicy>
    <encoder><pattern>%date{{ISO8601}} %-5level [%thread] %logger{{36}}: %message%n</pattern></encoder>
  </appender>
  <!-- Not INFO: at that level both servers log their settings and environment, passwords included. -->
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of both servers."""

    ports: Ports
    heap: str
    """`-Xmx` of Pravega, which keeps its data there unless there is a `storage`."""
    storage: Path | None = None
    """The directory to which Pravega moves data (its "tier 2"); None keeps all data in memory."""
    certificates: Certificates | None = None
    """With certificates all ports use TLS."""
    accounts: Mapping[str, Account] | None = field(default=None, repr=False)
    """With accounts there is authentication and authorization; each must have a password."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further Pravega settings, which take precedence over all others."""

    @property
    def info(self) -> ClusterInfo:
        """Return what clients need to use the servers."""
        tcp, http, ca_file = "tcp", "http", None
        if self.certificates is not None:
            tcp, http, ca_file = "tls", "https", str(self.certificates.ca)
        passwords = {name: account.password for name, account in (self.accounts or {}).items() if name != SERVER_USER}
        return ClusterInfo(
            controller_uri=f"{tcp}://localhost:{self.ports.controller}",
            registry_uri=f"{http}://localhost:{self.ports.registry}",
            rest_uri=f"{http}://localhost:{self.ports.controller_rest}",
            ca_file=ca_file,
            users={name: password for name, password in passwords.items() if password is not None},
        )


@dataclass(frozen=True)
class ServerHome:
    """What runs a cluster's servers, and where their files go: those of this run, and logs, which outlive it."""

    java: Java
    class_path: Sequence[Path]
    run: Path
    logs: Path


@dataclass(frozen=True)
class ServerProgram:
    """A server that is ready to be started."""

    name: str
    command: Sequence[str]
    log: Path
    output: Path
    recordings: Mapping[str, str]
    """The archive of classes that the server writes when it ends, if it does, and its place in the cache."""


def prepare_pravega(settings: ServerSettings, home: ServerHome) -> ServerProgram:
    """Write Pravega's settings into the directory `home.run`, and return the program."""
    configuration = home.run / "pravega.properties"
    values = _make_pravega_settings(settings, home.run)
    write_private(configuration, _format_properties(values))
    return _prepare(
        "pravega",
        "io.pravega.local.LocalPravegaEmulator",
        [
            f"-Xmx{settings.heap}",
            f"-XX:MaxDirectMemorySize={2 * int(values[CACHE_SIZE])}",
            f"-Dsinglenode.configurationFile={configuration}",
            # ZooKeeper need not wait for the disk: its data are of no use after this process.
            "-Dzookeeper.forceSync=no",
            # The controller in this process reads its own settings only from system properties.
            *(f"-D{key}={value}" for key, value in settings.properties.items() if key.startswith("controller.")),
        ],
        home,
    )


def prepare_registry(settings: ServerSettings, home: ServerHome) -> ServerProgram:
    """Write the schema registry's settings into the directory `home.run`, and return the program."""
    configuration = home.run / "registry.properties"
    write_private(configuration, _format_properties(_make_registry_settings(settings, home.run)))
    return _prepare(
        "registry",
        "io.pravega.schemaregistry.service.Main",
        [f"-Xmx{_REGISTRY_HEAP}", f"-Dconfig.file={configuration}"],
        home,
    )


def make_server_environment() -> dict[str, str]:
    """Return this process's environment without Pravega's own variables.

    A shell in which `pyspark-pravega local env` was evaluated has credentials in it. The Pravega client inside the
    servers would prefer them, perhaps those of an earlier cluster, to the servers' own.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().startswith(("pravega_", "singlenode.", "schemaregistry."))
    }


def _prepare(name: str, main_class: str, options: Sequence[str], home: ServerHome) -> ServerProgram:
    log = home.logs / f"{name}.log"
    logging = home.run / f"{name}-logging.xml"
    logging.write_text(_LOGGING.format(file=escape(str(log))), encoding="utf-8")
    temporary = create_private_directory(home.run / f"{name}-tmp")
    archive = find_server_archive(name, home.java, home.class_path)
    recordings: dict[str, str] = {}
    if not (archive_options := archive.options()):
        recording = home.run / f"{name}.jsa"
        archive_options, recordings = list_recording_options(recording), {str(recording): str(archive.file)}
    command = [
        str(home.java.executable),
        *options,
        *archive_options,
        # Better small and quick to start than fast after hours.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        # A server that lingers without memory is worse than one that has visibly ended.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={home.logs / f'{name}-crash.log'}",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={temporary}",
        f"-Dlogback.configurationFile={logging}",
        "-cp",
        os.pathsep.join(map(str, home.class_path)),
        main_class,
    ]
    return ServerProgram(name, command, log, home.logs / f"{name}.out", recordings)


def _make_pravega_settings(settings: ServerSettings, run: Path) -> dict[str, str]:
    ports = settings.ports
    values = {
        "singlenode.controller.rpc.port": str(ports.controller),
        "singlenode.controller.rest.port": str(ports.controller_rest),
        "singlenode.segmentStore.port": str(ports.segment_store),
        "singlenode.zk.port": str(ports.zookeeper),
        # No client needs them, and they are open to everybody.
        "singlenode.admin.gateway.enable": "false",
        "pravegaservice.admin.gateway.enable": "false",
        "pravegaservice.rest.listener.enable": "false",
        # The default is 0.0.0.0, which no certificate names, and to which not all systems connect.
        "pravegaservice.service.published.host.nameOrIp": "localhost",
        "pravegaservice.service.listener.host.nameOrIp": "localhost",
        # With the default of 128 MiB a fast writer fills the cache before it is flushed, and the server never recovers
        # (CacheFullException). It is direct memory, allocated as needed.
        CACHE_SIZE: str(CACHE_BYTES),
        # The log stays in the heap until the oldest write in it has been flushed. By default that may take 30 s.
        "writer.flush.threshold.milliseconds": "1000",
        # If a stream is dropped while it is flushed, the writer pauses, by default for 1 s, and truncates no log.
        "writer.error.sleep.milliseconds": "50",
    }
    if settings.storage is not None:
        values["pravegaservice.storage.impl.name"] = "FILESYSTEM"
        values["filesystem.root"] = str(settings.storage)
    if (certificates := settings.certificates) is not None:
        values |= {
            "singlenode.security.tls.enable": "true",
            "singlenode.security.tls.certificate.location": str(certificates.chain),
            "singlenode.security.tls.privateKey.location": str(certificates.key),
            "singlenode.security.tls.keyStore.location": str(certificates.key_store),
            "singlenode.security.tls.keyStore.pwd.location": str(certificates.store_password),
            "singlenode.security.tls.trustStore.location": str(certificates.trust_store),
        }
    if settings.accounts is not None:
        values |= {
            "singlenode.security.auth.enable": "true",
            "singlenode.security.auth.credentials.username": SERVER_USER,
            "singlenode.security.auth.credentials.pwd": find_server_password(settings.accounts),
            "singlenode.security.auth.pwdAuthHandler.accountsDb.location": _write_accounts(settings, run),
        }
    return values | dict(settings.properties)


def _make_registry_settings(settings: ServerSettings, run: Path) -> dict[str, str]:
    values = {
        "service.rest.listener.port": str(settings.ports.registry),
        "service.rest.published.host.nameOrIp": "localhost",
        "store.type.name": "Pravega",
        "store.pravega.controller.connect.uri": settings.info.controller_uri,
    }
    if (certificates := settings.certificates) is not None:
        values |= {
            "store.pravega.controller.connect.security.tls.trustStore.location": str(certificates.ca),
            "store.pravega.controller.connect.security.tls.validateHostName.enable": "true",
            "security.tls.enable": "true",
            "security.tls.server.certificate.location": str(certificates.chain),
            # Despite its name, a key store.
            "security.tls.server.privateKey.location": str(certificates.key_store),
            "security.tls.server.privateKey.pwd.location": str(certificates.store_password),
        }
    if settings.accounts is not None:
        token = f"{SERVER_USER}:{find_server_password(settings.accounts)}".encode()
        values |= {
            "store.pravega.controller.connect.auth.method": "Basic",
            "store.pravega.controller.connect.auth.token": base64.b64encode(token).decode("ascii"),
            "security.auth.enable": "true",
            "security.pwdAuthHandler.accountsDb.location": _write_accounts(settings, run),
        }
    return {f"schemaRegistry.{key}": value for key, value in values.items()}


def _write_accounts(settings: ServerSettings, run: Path) -> str:
    assert settings.accounts is not None
    path = run / "accounts"
    write_private(path, format_password_file(settings.accounts).encode("utf-8"))
    return str(path)


def _format_properties(values: Mapping[str, str]) -> bytes:
    """Return a Java properties file. Its escapes are those of JSON; Java takes `\\"` for a quotation mark."""
    lines = []
    for key, value in values.items():
        escaped = json.dumps(value)[1:-1]
        # Java drops only leading blanks.
        if escaped.startswith(" "):
            escaped = "\\" + escaped
        lines.append(f"{key}={escaped}\n")
    return "".join(lines).encode("ascii")


class ServerLog:
    """The log files of a server, from their present ends on."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._offsets = {file: file.stat().st_size if file.exists() else 0 for file in files}

    def has_port_in_use(self) -> bool:
        """Return whether the server has found that another program has one of its ports."""
        return any(_PORT_IN_USE.search(self._read(file)) for file in self._offsets)

    def tail(self) -> str:
        """Return the last lines, without stack frames, and the names of the files."""
        parts = []
        for file in self._offsets:
            lines = self._read(file)[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
            kept = [line for line in lines if line and not _STACK_FRAME.match(line)][-_TAIL_LINES:]
            parts.append(f"--- end of {file}:\n" + "\n".join(kept or ["(empty)"]))
        return "\n".join(parts)

    def _read(self, file: Path) -> bytes:
        try:
            with file.open("rb") as opened:
                size = opened.seek(0, 2)
                # If the file is smaller than before, the log was rolled over, and all of it is new.
                start = self._offsets[file] if size >= self._offsets[file] else 0
                opened.seek(start)
                return opened.read()
        except FileNotFoundError:
            return b""
