"""Guards the pages: only GET, only known hosts, and headers that forbid a browser everything that pages do not need."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::\d+)?")
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
    """Answers for the application what it must not see, and adds headers to every answer.

    A page of another site can make its own name lead to this machine, and would then be of the same origin as these
    pages. Its requests have that name in `Host`; so only addresses and `hosts` may be there.
    """

    def __init__(self, application: ASGIApp, hosts: Collection[str]) -> None:
        self._application = application
        self._hosts = {host.lower() for host in hosts} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self._application)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("These pages can only be read.\n", 405, {"allow": "GET, HEAD"})
        host = Headers(scope=scope).get("host", "")
        if not self._is_known(host):
            return PlainTextResponse(
                "This name is not one of this server's. Use its address, or start it with --allow-host NAME.\n", 421
            )
        return None

    def _is_known(self, host: str) -> bool:
        if (parts := _HOST.fullmatch(host)) is None:
            return False
        name = parts["address"] or parts["name"]
        if name.lower().rstrip(".") in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
