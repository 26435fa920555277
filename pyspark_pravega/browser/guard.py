"""Guards the pages: only GET, only known hosts, and headers that forbid a browser everything that pages do not need."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyspark_pravega.listening import REFUSAL, is_known_host

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Answers for the application what it must not see, and adds headers to every answer."""

    def __init__(self, application: ASGIApp, hosts: Collection[str]) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        raw = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():  # a slash within a name separates nothing
            parts = raw.decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", "%2F") for part in parts)}
        refusal = self._refuse(scope)
        await (refusal or self._application)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("These pages can only be read.\n", 405, {"allow": "GET, HEAD"})
        host = Headers(scope=scope).get("host", "")
        return None if is_known_host(host, self._hosts) else PlainTextResponse(REFUSAL, 421)
