"""Damage to events, and how much of it."""

from __future__ import annotations

import os
import random

COUNT = int(os.environ.get("FUZZ_EVENTS", "5000"))
"""Events per format; other generated tests do more by as much. `make long` and `make fuzz` set it higher."""
SEED = os.environ.get("FUZZ_SEED", "1")

SPLICES = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-", b"1e999", b"1e-999999999", b"9" * 50,
    b"\\ud800", b"\xed\xa0\x80", b"\xff", b"\x80", b"\0", b"\1", b"\2", b"2024-01-01T00:00:00Z", b"10000-01-01",
    b"[]", b"{}", b"5", b'\\"', b'""', b"0.5", b"true", b"AQ==", b" ", b"\n", b"\xff\xff\xff\xff\x0f",
]  # fmt: skip


def damaged(payload: bytes, chance: random.Random) -> bytes:
    """The payload with a few mistakes."""
    data = bytearray(payload)
    for _ in range(chance.choice((1, 1, 2, 5))):
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0 and data:
            data[place % len(data)] = chance.randrange(256)
        elif kind == 1:
            data[place:place] = chance.choice(SPLICES)
        elif kind == 2:
            del data[place : place + chance.randrange(1, 6)]
        elif kind == 3:
            del data[place:]
        else:
            data[place : place + chance.randrange(1, 4)] = chance.choice(SPLICES)
    return bytes(data)
