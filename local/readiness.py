"""Whether the servers answer: by real calls, since an open port does not mean a server behind it."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable

import grpc
import httpx

from pyspark_pravega.local.state import ClusterInfo

PROBE_SCOPE = "pyspark-pravega-readiness"
_SERVICE = "/io.pravega.controller.stream.api.grpc.v1.ControllerService/"
_CALL_TIMEOUT_S = 5.0
_PAUSE_S = 0.05


class TooLate(Exception):
    """A server did not answer before the deadline."""


def wait_for(probe: Callable[[], bool], check: Callable[[], None], deadline: float) -> None:
    """Repeat `probe` until it is true.

    Args:
        probe: a real call, with a time limit of its own.
        check: called before each probe; raises when waiting has become useless.
        deadline: `time.monotonic()` at which to give up.

    Raises:
        TooLate: the deadline passed.
    """
    while True:
        check()
        if probe():
            return
        if time.monotonic() > deadline:
            raise TooLate
        time.sleep(_PAUSE_S)


def controller_answers(info: ClusterInfo, user: tuple[str, str] | None) -> Callable[[], bool]:
    metadata = [("authorization", _basic(user))] if user else []

    def probe() -> bool:
        address = info.controller_uri.partition("://")[2]
        if info.ca_file:
            with open(info.ca_file, "rb") as file:
                channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()))
        else:
            channel = grpc.insecure_channel(address)
        with channel:
            scope = PROBE_SCOPE.encode()
            for method in ("createScope", "deleteScope"):
                call = channel.unary_unary(_SERVICE + method, lambda b: b, lambda b: b)
                try:
                    call(bytes([10, len(scope)]) + scope, timeout=_CALL_TIMEOUT_S, metadata=metadata)
                except grpc.RpcError:
                    return False
        return True

    return probe


def registry_answers(info: ClusterInfo, user: tuple[str, str] | None) -> Callable[[], bool]:
    headers = {"Authorization": _basic(user)} if user else {}
    verify: ssl.SSLContext | bool = True
    if info.ca_file:
        verify = ssl.create_default_context(cafile=info.ca_file)

    def probe() -> bool:
        try:
            reply = httpx.get(f"{info.registry_uri}/v1/groups", headers=headers, verify=verify, timeout=_CALL_TIMEOUT_S)
        except httpx.TransportError:
            return False
        return reply.status_code == httpx.codes.OK

    return probe


def _basic(user: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(user).encode()).decode("ascii")
