"""A controller that answers as usual, but loses what it was asked for: the event that starts it is lost inside it.

It stands in front of a real one, speaks its gRPC, and keeps the first request of some calls back. What is seen from
outside is what StreamMetadataTasks, StreamTransactionMetadataTasks and TableMetadataTasks of Pravega 0.13 then show: a
commit, an abort or a scaling is accepted and stays under way; a seal or a deletion is not answered; truncations and
changes are not answered either, and refuse the same request. The second request of the others is passed on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller import controller_pb2 as pb

UNANSWERED = (
    "sealStream",
    "deleteStream",
    "deleteKeyValueTable",
    "createReaderGroup",
    "deleteReaderGroup",
)
"""Calls that the controller answers when all is done. It takes the same request again."""

REFUSED = {
    "truncateStream": pb.UpdateStreamStatus(status=pb.UpdateStreamStatus.FAILURE),
    "updateStream": pb.UpdateStreamStatus(status=pb.UpdateStreamStatus.FAILURE),
    "updateReaderGroup": pb.UpdateReaderGroupResponse(status=pb.UpdateReaderGroupResponse.FAILURE),
}
"""Calls that the controller answers when all is done, with its answer to the same request meanwhile."""

_ENDED = {  # by the call that is lost: the state, the answer to a ping, and the call that comes too late
    "commitTransaction": (pb.TxnState.COMMITTING, pb.PingTxnStatus.COMMITTED, "abortTransaction"),
    "abortTransaction": (pb.TxnState.ABORTING, pb.PingTxnStatus.ABORTED, "commitTransaction"),
}


class ForgetfulController(grpc.GenericRpcHandler):  # type: ignore[misc]
    """What the controller forgets, and how often it was asked.

    `forgets` says how many more requests of a call, each for something else, it forgets; `holds` is set meanwhile to
    keep everything back, however often it is asked for.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self.forgets: Counter[str] = Counter()
        self.holds = threading.Event()
        self.late: set[str] = set()
        """Calls that are done all the same: only their answer is lost."""
        self.fails: Counter[str] = Counter()
        """How many more requests of a call fail, as those do that need a segment store while it is away."""
        self.asked: Counter[str] = Counter()
        """Requests by call, for what was forgotten once."""
        self.calls: Counter[str] = Counter()
        """All requests by call."""
        self._lost: dict[str, str] = {}
        """What is forgotten now: of what, the call."""
        self._lock = threading.Lock()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method
        call = method.rpartition("/")[2]
        metadata = [pair for pair in handler_call_details.invocation_metadata if pair[0] == "authorization"]

        def pass_on(request: bytes) -> bytes:
            return self._channel.unary_unary(method)(request, metadata=metadata, timeout=60)

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls[call] += 1
            if self.fails[call]:
                self.fails[call] -= 1
                context.abort(grpc.StatusCode.INTERNAL, "Internal exception occurred")
            try:
                return self._answer(call, request, context, pass_on)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    def _answer(
        self, call: str, request: bytes, context: grpc.ServicerContext, pass_on: Callable[[bytes], bytes]
    ) -> bytes:
        if call in ("checkTransactionState", "pingTransaction", *_ENDED):
            return self._answer_transaction(call, request, pass_on)
        if call in ("scale", "checkScale"):
            return self._answer_scaling(call, request, pass_on)
        if call == "sealStream":
            while self._commits() and context.is_active():
                time.sleep(0.02)  # SealStreamTask waits for transactions that are being committed
        if call in UNANSWERED or call in REFUSED:
            found = self._find(call, request)
            if found == "first":
                if call in self.late:
                    pass_on(request)
                gone = threading.Event()
                if context.add_callback(gone.set):
                    gone.wait()  # the client gives up
                return b""
            if found == "again" and call in REFUSED:
                return REFUSED[call].SerializeToString()
            return self._do(call, request, pass_on, request)
        return pass_on(request)

    def _do(self, call: str, what: bytes, pass_on: Callable[[bytes], bytes], request: bytes) -> bytes:
        """Do what was asked for; if the caller may, it is not forgotten any more."""
        reply = pass_on(request)
        with self._lock:
            self._lost.pop(f"{call} {what.hex()}", None)
        return reply

    def _commits(self) -> list[str]:
        return [what for what, call in list(self._lost.items()) if call == "commitTransaction"]

    def _find(self, call: str, what: bytes) -> str:
        """Say whether a request is forgotten ("first"), was forgotten and comes "again", or is like any ("")."""
        key = f"{call} {what.hex()}"
        with self._lock:
            if self._lost.get(key) == call:
                self.asked[call] += 1
                return "first" if self.holds.is_set() and call not in REFUSED else "again"
            if self.forgets[call]:
                self.forgets[call] -= 1
                self._lost[key] = call
                self.asked[call] += 1
                return "first"
            return ""

    def _answer_transaction(self, call: str, request: bytes, pass_on: Callable[[bytes], bytes]) -> bytes:
        kind: Any = pb.PingTxnRequest if call == "pingTransaction" else pb.TxnRequest
        message = kind.FromString(request)
        transaction = message.txnId.SerializeToString() + message.streamInfo.SerializeToString()
        for lost, (state, ping, too_late) in _ENDED.items():
            if f"{lost} {transaction.hex()}" not in self._lost:
                continue
            if call == "checkTransactionState":
                return pb.TxnState(state=state).SerializeToString()
            if call == "pingTransaction":
                return pb.PingTxnStatus(status=ping).SerializeToString()
            if call == too_late:
                return pb.TxnStatus(status=pb.TxnStatus.FAILURE).SerializeToString()
        if call not in _ENDED:
            return pass_on(request)
        if self._find(call, transaction) == "first":
            return pb.TxnStatus(status=pb.TxnStatus.SUCCESS).SerializeToString()
        return self._do(call, transaction, pass_on, request)

    def _answer_scaling(self, call: str, request: bytes, pass_on: Callable[[bytes], bytes]) -> bytes:
        kind: Any = pb.ScaleStatusRequest if call == "checkScale" else pb.ScaleRequest
        stream = kind.FromString(request).streamInfo
        if call == "checkScale":
            if f"scale {stream.SerializeToString().hex()}" in self._lost:
                return pb.ScaleStatusResponse(status=pb.ScaleStatusResponse.IN_PROGRESS).SerializeToString()
            return pass_on(request)
        if self._find("scale", stream.SerializeToString()) == "first":
            if call in self.late:
                pass_on(request)
            return pb.ScaleResponse(status=pb.ScaleResponse.STARTED, epoch=0).SerializeToString()
        return self._do(call, stream.SerializeToString(), pass_on, request)


@contextmanager
def open_forgetful(config: ClientConfig) -> Iterator[tuple[ForgetfulController, ClientConfig]]:
    """Put a forgetful controller in front of a plain one; yields it and how to connect to it."""
    channel = grpc.insecure_channel(str(config.controller_endpoints[0]))
    with serve_forgetful(channel) as (handler, address):
        yield handler, replace(config, controller_uri=address)


@contextmanager
def serve_forgetful(
    channel: grpc.Channel, credentials: grpc.ServerCredentials | None = None
) -> Iterator[tuple[ForgetfulController, str]]:
    """Put a forgetful controller in front of the one at the other end of a channel; yields it and its address."""
    handler = ForgetfulController(channel)
    with ThreadPoolExecutor(16) as threads:
        server = grpc.server(threads, handlers=(handler,))
        if credentials is None:
            address = f"tcp://localhost:{server.add_insecure_port('localhost:0')}"
        else:
            address = f"tls://localhost:{server.add_secure_port('localhost:0', credentials)}"
        server.start()
        try:
            yield handler, address
        finally:
            server.stop(None).wait()
            channel.close()
