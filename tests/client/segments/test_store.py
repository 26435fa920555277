"""Requests to segment stores, and connections: states, attributes, retries, TLS faults."""

from __future__ import annotations

import contextlib
import pickle
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.connection import Connection
from pyspark_pravega.client.segments.delegation import DelegationTokens, read_granted_access
from pyspark_pravega.client.segments.failures import SegmentAddress, make_reply_error
from pyspark_pravega.client.segments.fetch import read_bytes
from pyspark_pravega.client.segments.store import SegmentInfo, SegmentStore
from pyspark_pravega.client.stream import Access, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.tls import make_ssl_context
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.replies import (
    REPLY_KINDS,
    AppendSetup,
    ErrorMessage,
    OperationUnsupported,
    SegmentIsSealed,
    StreamSegmentInfo,
    WrongHost,
)
from pyspark_pravega.errors import (
    ClientClosedError,
    PermissionDeniedError,
    ProtocolError,
    SegmentNotFoundError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    TlsError,
    TransactionNotOpenError,
)

Make = Callable[..., Any]


@pytest.fixture
def wide(pravega: Pravega, scope: str) -> Stream:
    """A new stream with 300 segments: more than are asked about at once."""
    made = Stream(scope, "wide")
    pravega.controller.create_stream(made, StreamConfiguration(ScalingPolicy(min_segments=300)))
    return made


def test_states_of_many_segments(pravega: Pravega, wide: Stream, events: Make) -> None:
    with SegmentAppender(pravega.segments, wide, 7, uuid.uuid4()) as appender:
        appender.append(events([100]).frames, 1)
        appender.flush()
    infos = pravega.segments.segment_infos(wide, [*range(300), 300, 7])
    assert infos.keys() == set(range(300))  # those that are not there are left out
    assert infos[7] == SegmentInfo(0, 108, False)
    assert infos[8] == SegmentInfo(0, 0, False)
    pravega.controller.seal_stream(wide)
    assert all(info.sealed for info in pravega.segments.segment_infos(wide, range(300)).values())
    assert pravega.segments.segment_infos(wide, []) == {}


def test_locations_are_asked_for_once(pravega: Pravega, wide: Stream) -> None:
    asked: list[int] = []

    class Counting:
        def segment_location(self, stream: Stream, segment_id: int) -> Endpoint:
            asked.append(segment_id)
            return pravega.controller.segment_location(stream, segment_id)

        def stream_exists(self, stream: Stream) -> bool:
            return pravega.controller.stream_exists(stream)

    with SegmentStore(pravega.config, Counting(), pravega.tokens) as store:
        store.seed_location(wide, 3, pravega.controller.segment_location(wide, 3))
        found = store.locations(wide, range(300))
        assert found == store.locations(wide, range(300))
        assert found == {number: pravega.controller.segment_location(wide, number) for number in range(300)}
        store.forget_location(wide, 5)
        store.location(wide, 5)
    assert sorted(asked) == sorted([*(set(range(300)) - {3}), 5])


def test_creation_times(pravega: Pravega, stream: Stream) -> None:
    now = time.time() * 1000
    (created,) = pravega.segments.creation_times(stream, [0]).values()
    assert created is not None and abs(created - now) < 3_600_000
    with pytest.raises(SegmentNotFoundError, match=f"{stream}/9.#epoch.0"):
        pravega.segments.creation_times(stream, [9])


def test_sealing_many_segments_of_a_transaction(pravega: Pravega, wide: Stream) -> None:
    transaction = pravega.controller.create_transaction(wide, 30_000)
    ids = [segment.segment_id for segment in transaction.segments]
    pravega.segments.seal_segments(wide, ids, transaction.id)
    pravega.segments.seal_segments(wide, ids[:3], transaction.id)
    infos = pravega.segments.segment_infos(wide, ids, transaction.id)
    assert list(infos.values()) == [SegmentInfo(0, 0, True)] * 300
    assert not any(info.sealed for info in pravega.segments.segment_infos(wide, ids).values())
    pravega.controller.commit_transaction(wide, transaction.id)


def test_small_blocks_of_many_segments(pravega: Pravega, wide: Stream, events: Make) -> None:
    transaction = pravega.controller.create_transaction(wide, 30_000)
    addresses = [SegmentAddress(wide, segment.segment_id, transaction.id) for segment in transaction.segments]
    content = {address: events([50] * (number % 7 + 1), number) for number, address in enumerate(addresses)}

    def append(writers: dict[SegmentAddress, uuid.UUID]) -> dict[SegmentAddress, tuple[int, int]]:
        blocks = {
            one: (writer, memoryview(content[one].frames), len(content[one].ends)) for one, writer in writers.items()
        }
        return pravega.segments.append_together(blocks)

    writers = {address: uuid.uuid4() for address in addresses}
    assert append(writers) == {one: (0, len(content[one].frames)) for one in addresses}
    some = addresses[100:120]
    # Another writer of a segment comes behind, and nothing is stored twice.
    assert append({one: uuid.uuid4() for one in some}) == {
        one: (len(content[one].frames), 2 * len(content[one].frames)) for one in some
    }
    assert append(writers) == {}
    for number, address in enumerate(addresses):
        frames = content[address].frames * (2 if address in some else 1)
        info = pravega.segments.segment_infos(wide, [address.segment_id], transaction.id)[address.segment_id]
        assert info.write_offset == len(frames)
        if number % 10 == 0:
            assert read_bytes(pravega.segments, address, 0, len(frames)) == frames
    pravega.controller.abort_transaction(wide, transaction.id)
    with pytest.raises(TransactionNotOpenError, match=str(transaction.id)):
        append({one: uuid.uuid4() for one in addresses})


@pytest.mark.parametrize("seed", range(4))
def test_a_lost_connection_doubles_no_small_block(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, scope: str, events: Make, seed: int
) -> None:
    """Appenders of the same writers store what is left, and nothing else, wherever connections were cut."""
    chance = random.Random(seed)
    stream = Stream(scope, "cut")
    pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=20)))
    one = events([100] * 10)
    blocks = {
        SegmentAddress(stream, number): (uuid.uuid4(), memoryview(one.frames), len(one.ends)) for number in range(20)
    }
    # A setup takes some 100 bytes each way, and a block 1,100 and 60: a cut comes among the former or the latter.
    proxy.limits.extend(
        [
            (None, chance.randrange(200, 3000)),
            (chance.randrange(200, 24_000), None),
            (None, chance.randrange(100, 2000)),
        ]
    )
    ranges = proxied.append_together(blocks)
    assert proxy.connections > 1
    for address, (writer, data, count) in blocks.items():
        if address not in ranges:
            with SegmentAppender(proxied, stream, address.segment_id, writer) as appender:
                appender.append(data, count)
                appender.flush()
        assert pravega.segments.segment_infos(stream, [address.segment_id])[address.segment_id].write_offset == len(
            data
        )
        assert read_bytes(pravega.segments, address, 0, len(data)) == one.frames


def test_connections_are_used_again(pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream) -> None:
    for _ in range(5):
        proxied.segment_infos(stream, [0])
    assert proxy.connections == 1
    proxy.cut_all()
    proxied.segment_infos(stream, [0])
    assert proxy.connections == 2


def test_threads_share_a_store(pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream) -> None:
    def ask() -> None:
        for _ in range(20):
            assert proxied.segment_infos(stream, [0]) == {0: SegmentInfo(0, 0, False)}

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.connections <= 6


def test_after_close_nothing_works(pravega: Pravega, stream: Stream) -> None:
    store = SegmentStore(pravega.config, pravega.controller, pravega.tokens)
    store.segment_infos(stream, [0])
    store.close()
    with pytest.raises(ClientClosedError, match="closed"):
        store.segment_infos(stream, [0])


class Fixed:
    """A locator that always names one endpoint, for servers that are no Pravega."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def segment_location(self, stream: Stream, segment_id: int) -> Endpoint:
        return self.endpoint

    def stream_exists(self, stream: Stream) -> bool:
        return True

    def delegation_token(self, stream: Stream, access: Access) -> str:
        return ""


def fixed_store(config: ClientConfig, endpoint: Endpoint, seconds: float = 1.0) -> SegmentStore:
    locator = Fixed(endpoint)
    quick = replace(config, request_timeout=seconds, retry_timeout=seconds)
    return SegmentStore(quick, locator, DelegationTokens(locator))


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], Endpoint]]:
    """A function that makes a server which sends the given bytes to whoever connects, and then keeps silent."""
    with contextlib.ExitStack() as opened:

        def make(answer: bytes) -> Endpoint:
            listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=serve, args=(listening, answer))
            opened.callback(thread.join)
            opened.callback(listening.shutdown, socket.SHUT_RDWR)
            thread.start()
            return Endpoint("127.0.0.1", listening.getsockname()[1])

        def serve(listening: socket.socket, answer: bytes) -> None:
            with contextlib.ExitStack() as connections, contextlib.suppress(OSError):
                while True:
                    connected, _ = listening.accept()
                    connections.enter_context(connected).sendall(answer)

        yield make


NOWHERE = Stream("no-such", "stream")


def test_a_silent_server_is_a_timeout(answering: Make) -> None:
    config = ClientConfig("tcp://localhost:9090")
    with fixed_store(config, answering(b""), 0.5) as store:
        with pytest.raises(ServerTimeoutError, match=r"did not answer within 0\.(5|4\d?) s"):
            store.segment_infos(NOWHERE, [0])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it a Pravega segment store"),
        (b"\xff\xff\xff\x81\0\0\0\x08\0\0\0\x63\0\0\0\x62", "versions 98 to 99"),
        (b"\0\0\0\x1d\0\0\0\x0b\0\0\0\0\0\0\0\1\0\1a", "greets with SegmentSealed"),
        (wire.pack_hello() + b"\0\0\0\x1d\0\0\0\x0b\0\0\0\0\0\0\0\x4d\0\1a", "that nobody asked for"),
        (wire.pack_hello() + b"\0\0\0\x1d\0\0\0\x0b\0\0\0\0\0\0\0\1\0\1a", "unexpected SegmentSealed"),
    ],
)
def test_other_servers_are_told_apart_without_retries(answering: Make, answer: bytes, message: str) -> None:
    config = ClientConfig("tcp://localhost:9090")
    with fixed_store(config, answering(answer), 30) as store:
        with pytest.raises(ProtocolError, match=message):
            store.segment_infos(NOWHERE, [0])


def test_signs_of_life_are_skipped(answering: Make) -> None:
    info = b"\0\0\0\x0c\0\0\0\x1e\0\0\0\0\0\0\0\1\0\1a\1\0\0" + bytes(7) + b"\5" + bytes(7) + b"\x09"
    config = ClientConfig("tcp://localhost:9090")
    alive = b"\0\0\0\x64\0\0\0\0"
    endpoint = answering(alive + wire.pack_hello() + alive + alive + info)
    with fixed_store(config, endpoint, 30) as store:
        assert store.segment_infos(NOWHERE, [0]) == {0: SegmentInfo(0, 9, False)}


def test_every_failure_has_its_error() -> None:
    address = SegmentAddress(Stream("s", "t"), 3, uuid.UUID(int=7))
    for reply, kind, text in (
        (WrongHost(1, "a", ""), ServerUnavailableError, "moved"),
        (SegmentIsSealed(1, "a", 5), TransactionNotOpenError, "sealed for the commit"),
        (OperationUnsupported(1, "read"), ServerFailedError, "does not support read"),
        (ErrorMessage(1, "a", "because\n at java", 0), ServerFailedError, r"\(because\)"),
        (AppendSetup(1, "a", uuid.UUID(int=1), 0), ProtocolError, "unexpected AppendSetup"),
    ):
        with pytest.raises(kind, match=text) as caught:
            raise make_reply_error(reply, address, Access.READ, "read")
        assert "s/t/3.#epoch.0#transaction." in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    ours = [kind for kind in REPLY_KINDS.values() if kind.__module__.startswith("pyspark_pravega.")]
    assert len(ours) == 25  # a new reply needs a look at `failure`


def test_partial_sends_and_receipts(pravega: Pravega, stream: Stream) -> None:
    """Requests of many bytes at once, and replies that come in pieces."""
    address = SegmentAddress(stream, 0)
    connection = Connection.open(pravega.controller.segment_location(stream, 0), None, 30.0)
    requests = [wire.get_segment_info(number, address.name, "") for number in range(5000)]
    connection.send(memoryview(b"".join(requests[:100])), *requests[100:200])
    connection.send(b"".join(requests[200:]))
    replies = [connection.receive() for _ in requests]
    assert {reply.request_id for reply in replies} == set(range(5000))
    assert all(isinstance(reply, StreamSegmentInfo) for reply in replies)
    assert not connection.has_input()
    connection.close()


class TestTls:
    """On a cluster with TLS and users."""

    @pytest.fixture
    def secured(self, secure_client_config: Callable[..., ClientConfig]) -> Iterator[Pravega]:
        with connect(secure_client_config()) as connected:
            yield connected

    @pytest.fixture
    def target(self, secured: Pravega, secure_scope: str) -> Stream:
        made = Stream(secure_scope, "stream")
        secured.controller.create_stream(made, StreamConfiguration())
        return made

    def test_an_untrusted_certificate_is_not_retried(self, secured: Pravega, target: Stream, tmp_path: Path) -> None:
        other = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(str(other))
        endpoint = secured.controller.segment_location(target, 0)
        config = replace(secured.config, trust_store=str(other), retry_timeout=600.0)
        with SegmentStore(config, secured.controller, secured.tokens) as store:
            with pytest.raises(TlsError, match=f"{endpoint} is not trusted"):
                store.segment_infos(target, [0])

    def test_the_name_in_the_certificate_is_checked(self, secured: Pravega, target: Stream, proxy_to: Make) -> None:
        elsewhere = proxy_to(secured.controller.segment_location(target, 0), "127.0.0.2").endpoint
        config = replace(secured.config, retry_timeout=600.0)
        with SegmentStore(config, secured.controller, secured.tokens) as store:
            store.seed_location(target, 0, elsewhere)
            with pytest.raises(TlsError, match="not made out for '127.0.0.2'"):
                store.segment_infos(target, [0])
        lenient = replace(config, validate_hostname=False)
        with SegmentStore(lenient, secured.controller, secured.tokens) as store:
            store.seed_location(target, 0, elsewhere)
            assert store.segment_infos(target, [0]) == {0: SegmentInfo(0, 0, False)}

    def test_plain_and_tls_do_not_mix(self, secured: Pravega, target: Stream, pravega: Pravega, stream: Stream) -> None:
        tls_endpoint = secured.controller.segment_location(target, 0)
        plain_endpoint = pravega.controller.segment_location(stream, 0)
        with fixed_store(pravega.config, tls_endpoint) as store:
            with pytest.raises((ProtocolError, ServerUnavailableError), match="does the server expect TLS"):
                store.segment_infos(stream, [0])
        with fixed_store(secured.config, plain_endpoint) as store:
            with pytest.raises((ServerTimeoutError, ServerUnavailableError, TlsError)):
                store.segment_infos(target, [0])

    def test_large_blocks_over_tls(self, secured: Pravega, target: Stream, events: Make) -> None:
        given = events([3_000_000, 10, 0, 5_000_000])
        with SegmentAppender(secured.segments, target, 0, uuid.uuid4()) as appender:
            appender.append(given.frames, 4)
            appender.flush()
            assert appender.ranges == [(0, len(given.frames))]
        context = make_ssl_context(secured.config)
        connection = Connection.open(secured.controller.segment_location(target, 0), context, 30.0)
        assert "TLS" in repr(connection)
        connection.close()

    def test_without_rights_the_segment_store_is_not_even_asked(
        self, target: Stream, secure_client_config: Callable[..., ClientConfig]
    ) -> None:
        with connect(secure_client_config("nobody")) as nobody:
            with pytest.raises(PermissionDeniedError, match=f"READ.*stream:{target.name}"):
                nobody.segments.segment_infos(target, [0])

    def test_a_token_tells_what_it_is_good_for(self, secured: Pravega, target: Stream) -> None:
        controller = secured.controller
        assert read_granted_access(controller.delegation_token(target, Access.READ)) is Access.READ
        for access in (Access.WRITE, Access.READ_WRITE):
            assert read_granted_access(controller.delegation_token(target, access)) is Access.READ_WRITE
        assert read_granted_access(controller.create_transaction(target, 20_000).token) is Access.READ_WRITE
        assert read_granted_access("") is Access.READ_WRITE
        assert read_granted_access("not.a.token") is Access.READ
        assert "eyJ" not in repr(secured.segments)
