"""Servers of somebody else: they answer as little as a stranger would, and keep the logins that reach them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc


@dataclass(frozen=True)
class ForeignServers:
    """The addresses of a controller and a registry, and the `authorization` headers that came to either."""

    controller_uri: str
    registry_uri: str
    calls: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)


class _Controller(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, seen: ForeignServers) -> None:
        self._seen = seen

    def service(self, details: Any) -> Any:
        self._seen.calls.append(details.method)
        self._seen.logins.extend(text for key, text in details.invocation_metadata if key == "authorization")

        def refuse(request: bytes, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who is it?")

        return grpc.unary_unary_rpc_method_handler(refuse)


@contextmanager
def foreign_servers() -> Iterator[ForeignServers]:
    """Run both in the body. Each asks everybody for a login."""

    class Registry(BaseHTTPRequestHandler):
        def _refuse(self) -> None:
            seen.calls.append(self.path)
            seen.logins.extend(self.headers.get_all("authorization") or ())
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST = do_PUT = do_DELETE = _refuse

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadPoolExecutor(2) as threads, ThreadingHTTPServer(("127.0.0.1", 0), Registry) as registry:
        controller = grpc.server(threads)
        port = controller.add_insecure_port("127.0.0.1:0")
        seen = ForeignServers(f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{registry.server_port}")
        controller.add_generic_rpc_handlers((_Controller(seen),))
        controller.start()
        serving = threading.Thread(target=registry.serve_forever)
        serving.start()
        try:
            yield seen
        finally:
            registry.shutdown()
            serving.join()
            controller.stop(None).wait()
