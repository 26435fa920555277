"""What the tests of segments share: streams, events, and a network that can be cut."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Access, Stream, StreamConfiguration
from tests.cutting_proxy import CuttingProxy


@pytest.fixture
def stream(pravega: Pravega, scope: str) -> Stream:
    """A new stream with one segment, 0."""
    made = Stream(scope, "stream")
    pravega.controller.create_stream(made, StreamConfiguration())
    return made


class BehindProxy:
    """The controller's answers, with segments found behind a proxy."""

    def __init__(self, pravega: Pravega, proxy: CuttingProxy) -> None:
        self._pravega = pravega
        self._proxy = proxy

    def segment_location(self, stream: Stream, segment_id: int) -> Endpoint:
        assert self._pravega.controller.segment_location(stream, segment_id).port == self._proxy.target.port
        return self._proxy.endpoint

    def stream_exists(self, stream: Stream) -> bool:
        return self._pravega.controller.stream_exists(stream)


@pytest.fixture
def proxy_to() -> Iterator[Callable[..., CuttingProxy]]:
    """A function that makes proxies in front of an endpoint, on localhost or another address of this machine."""
    made: list[CuttingProxy] = []

    def make(target: Endpoint, host: str = "localhost") -> CuttingProxy:
        made.append(CuttingProxy(target, host))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def proxy(pravega: Pravega, stream: Stream, proxy_to: Callable[..., CuttingProxy]) -> CuttingProxy:
    """A proxy in front of the segment store of `stream`."""
    return proxy_to(pravega.controller.segment_location(stream, 0))


@pytest.fixture
def proxied(pravega: Pravega, proxy: CuttingProxy) -> Iterator[SegmentStore]:
    """The segment stores, reached through `proxy`."""
    with SegmentStore(pravega.config, BehindProxy(pravega, proxy), pravega.tokens) as store:
        yield store


class Events:
    """Random events: `payloads`, and the same framed in one buffer, `frames`, with the position after each, `ends`."""

    def __init__(self, sizes: list[int], seed: int = 0) -> None:
        content = np.random.default_rng(seed).integers(0, 256, sum(sizes), np.uint8).tobytes()
        ends = np.cumsum(sizes).tolist()
        self.payloads = [content[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        self.frames = b"".join(struct.pack(">ii", 0, len(payload)) + payload for payload in self.payloads)
        self.ends = (np.cumsum(sizes) + 8 * np.arange(1, len(sizes) + 1)).tolist()

    def blocks(self, events: int) -> Iterator[tuple[bytes, int]]:
        """The frames in blocks of so many events, as `SegmentAppender.append` takes them."""
        for first in range(0, len(self.payloads), events):
            last = min(first + events, len(self.payloads))
            begin = self.ends[first - 1] if first else 0
            yield self.frames[begin : self.ends[last - 1]], last - first

    def array(self) -> pa.Array:
        return pa.array(self.payloads, pa.binary())


@pytest.fixture
def events() -> Callable[..., Events]:
    """A function from sizes in bytes (and a seed) to random events of these sizes."""
    return Events


class MintedTokens:
    """A source of delegation tokens that signs them itself, with the key that standalone servers have.

    `lives` are the lives in seconds of the next tokens, then `life` holds. The server verifies them as any.
    """

    def __init__(self, life: float, lives: list[float] | None = None, right: str = "READ_UPDATE") -> None:
        self.life = life
        self.lives = list(lives or [])
        self.right = right
        self.minted = 0

    def delegation_token(self, stream: Stream, access: Access) -> str:
        import base64
        import hashlib
        import hmac
        import json
        import time

        self.minted += 1
        life = self.lives.pop(0) if self.lives else self.life
        issued = time.time()
        claims = {
            "sub": "segmentstoreresource",
            "aud": "segmentstore",
            "iat": int(issued),
            "exp": issued + life,
            f"prn::/scope:{stream.scope}/stream:{stream.name}": self.right,
        }
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "HS512"}, claims)
        ]
        signature = hmac.new(b"secret", b".".join(parts), hashlib.sha512).digest()
        return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


@pytest.fixture
def minted_tokens() -> type[MintedTokens]:
    return MintedTokens
