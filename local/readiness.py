"""Probes that find out by real calls whether the servers answer: an open port does not mean that a server is behind it.

Every probe returns whether its server answered, and raises PortLost if another program answers in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import httpx

from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.credentials import Credentials
from pyspark_pravega.client.registry.http import HttpServer
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.retry import FirstContact
from pyspark_pravega.client.segments.connection import Connection
from pyspark_pravega.client.tls import make_ssl_context
from pyspark_pravega.errors import PravegaError, ScopeExistsError

from .state import ClusterInfo

PROBE_SCOPE = "pyspark-pravega-readiness"
"""A scope that is created and deleted: a controller that can do so has reached its segment store and its tables."""

_CALL_TIMEOUT_S = 5.0
_GREETING_TIMEOUT_S = 10.0
_PAUSE_S = 0.05
_ONE_TRY = 0.0
"""Seconds that a probe goes on if no program listens: `wait_for` repeats it, without lines in the log."""

Probe = Callable[[], bool]


class TooLate(Exception):
    """A server did not answer before the deadline."""


class PortLost(Exception):
    """Another program listens on a server's port."""


def wait_for(probe: Probe, check: Callable[[], None], deadline: float) -> None:
    """Repeat `probe`, which has a time limit of its own, until it returns True.

    `check` is called before each probe, and raises an error if waiting has become useless. Raises TooLate after
    `deadline` (`time.monotonic`), and PortLost if the probe does.
    """
    while True:
        check()
        if probe():
            return
        if time.monotonic() > deadline:
            raise TooLate
        time.sleep(_PAUSE_S)


@dataclass(frozen=True)
class Probes:
    """The probes of a cluster."""

    info: ClusterInfo
    segment_store: int
    """Its TCP port."""
    credentials: Credentials | None

    @property
    def _config(self) -> ClientConfig:
        return ClientConfig(
            controller_uri=self.info.controller_uri,
            registry_uri=self.info.registry_uri,
            credentials=self.credentials,
            trust_store=self.info.ca_file,
            request_timeout=_CALL_TIMEOUT_S,
            retry_timeout=_CALL_TIMEOUT_S,
        )

    def pravega(self) -> bool:
        """Return whether segment store, controller and the controller's REST interface answer."""
        return self._can_greet() and self._can_create_scope() and self._can_ask_rest()

    def registry(self) -> bool:
        """Return whether the registry lists its groups, for which it must call Pravega."""
        with SchemaRegistry(self._config, None, FirstContact(_ONE_TRY)) as registry:
            try:
                registry.groups()
            except PravegaError:
                return False
        return True

    def _can_greet(self) -> bool:
        # Pravega continues without an error if it cannot bind this port, so only the greeting shows it.
        config = self._config
        try:
            context = make_ssl_context(config) if config.tls else None
            Connection.open(Endpoint("localhost", self.segment_store), context, _GREETING_TIMEOUT_S).close()
        except PravegaError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                return False
            raise PortLost(f"the program on port {self.segment_store} is not a segment store: {error}") from error
        return True

    def _can_create_scope(self) -> bool:
        with Controller(self._config, FirstContact(_ONE_TRY)) as controller:
            try:
                # It exists if an earlier try was cut off after the server had created it.
                with suppress(ScopeExistsError):
                    controller.create_scope(PROBE_SCOPE)
                controller.delete_scope(PROBE_SCOPE)
            except PravegaError:
                return False
        return True

    def _can_ask_rest(self) -> bool:
        config = self._config
        headers = {} if self.credentials is None else {"Authorization": self.credentials.authorization()}
        assert self.info.rest_uri is not None
        server = HttpServer(self.info.rest_uri, make_ssl_context(config) if config.tls else None)
        try:
            reply = server.request("GET", "/ping", query={}, body=None, headers=headers, seconds=_CALL_TIMEOUT_S)
        except OSError:
            return False
        except httpx.HTTPError as error:
            port = server.endpoint.port
            raise PortLost(f"port {port} does not answer as Pravega's REST interface: {error}") from error
        finally:
            server.close()
        return reply.status_code == 200
