"""Delegation tokens, which the controller gives to callers and callers show to the segment stores.

A token is a JWT that names one stream and one right, and is valid for minutes (600 s by default). A segment store knows
no users; it only verifies the token in each command. Without authentication the controller's token is "".
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from ..stream import Access, Stream

REFRESH_AT = 0.8
"""The fraction of a token's life after which a new one is asked for."""


class TokenSource(Protocol):
    """The call of the controller that `DelegationTokens` needs."""

    def delegation_token(self, stream: Stream, access: Access) -> str: ...


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    token: str | None = field(default=None, repr=False)
    refresh_at: float = 0.0


class DelegationTokens:
    """A thread-safe cache that refreshes tokens in time. For tables ask with `key_value_table_stream(scope, table)`."""

    def __init__(self, controller: TokenSource) -> None:
        self._controller = controller
        self._entries: dict[tuple[Stream, Access], _Entry] = {}
        self._lock = threading.Lock()

    def token(self, stream: Stream, access: Access) -> str:
        """Return a token with at least a fifth of its life left; "" if the server requires none.

        Raises the errors of `Controller.delegation_token`: AuthenticationError, PermissionDeniedError and others.
        """
        entry = self._entry(stream, access)
        # One lock per token: a slow refresh must not delay other streams, and many callers ask only once.
        with entry.lock:
            if entry.token is None or time.time() >= entry.refresh_at:
                token = self._controller.delegation_token(stream, access)
                entry.token, entry.refresh_at = token, compute_refresh_time(token, time.time())
            return entry.token

    def seed(self, stream: Stream, access: Access, token: str) -> None:
        """Add a token that came otherwise, as with a transaction or a planned scan, unless it must be renewed now."""
        now = time.time()
        due = compute_refresh_time(token, now)
        if due <= now:
            return
        entry = self._entry(stream, access)
        with entry.lock:
            entry.token, entry.refresh_at = token, due

    def invalidate(self, stream: Stream, access: Access) -> None:
        """Forget a token that a segment store has refused; the next call asks the controller."""
        with self._lock:
            self._entries.pop((stream, access), None)

    def _entry(self, stream: Stream, access: Access) -> _Entry:
        with self._lock:
            return self._entries.setdefault((stream, access), _Entry())


def compute_refresh_time(token: str, now: float) -> float:
    """Return when to ask for the next token (seconds since 1970, by this machine's clock).

    The token gives only the length of its life, so that a clock that differs from the server's does no harm. A token
    without a time, and "", never needs a refresh.
    """
    expires, issued = _claim(token, "exp"), _claim(token, "iat")
    if expires is None:
        return float("inf")
    if issued is None:
        return now + REFRESH_AT * (expires - now)
    # A token may have spent part of its life on the way here, for instance in a task's description. Trust the clock as
    # far as it says that more time has passed.
    age = min(max(now - issued, 0.0), expires - issued)
    return now + REFRESH_AT * (expires - issued) - age


def read_granted_access(token: str) -> Access:
    """Return the largest right that a token's claims grant: READ_UPDATE allows reading too.

    "", which servers without authentication accept, allows everything; a token without claims allows only reading.
    """
    if not token:
        return Access.READ_WRITE
    rights = {value for name, value in _read_claims(token).items() if name.startswith("prn:")}
    return Access.READ_WRITE if "READ_UPDATE" in rights else Access.READ


def _claim(token: str, name: str) -> float | None:
    value = _read_claims(token).get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _read_claims(token: str) -> dict[str, object]:
    # Only the segment stores have the key to check the signature.
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return payload if isinstance(payload, dict) else {}
