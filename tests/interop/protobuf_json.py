"""Protobuf's own JSON mapping in Java, asked of the process of `foreign`; it needs no servers."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from tests.interop.foreign import Foreign


def protobuf_as_json(java: Foreign, cases: Sequence[tuple[str, bytes, Sequence[bytes]]]) -> list[list[dict[str, str]]]:
    """Return what Java's JsonFormat makes of messages, with the fields' own names.

    Each case is the full name of a message of a file, the file descriptor set with all that it imports (in the order of
    need), and payloads. For each payload there is `json`, or `unreadable` or `unprintable` with the reason.
    """
    listed = [
        {
            "type": name,
            "schema": base64.b64encode(files).decode("ascii"),
            "messages": [payload.hex() for payload in payloads],
        }
        for name, files, payloads in cases
    ]
    found: list[list[dict[str, str]]] = java.ask({"operation": "protobuf-json", "cases": listed})["results"]
    return found
