"""Procedures on consumers, for whom the server keeps events."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, LongType, StringType

from pyspark_pravega.client.consumers.consumer import Consumer, ConsumerStatus, count_bytes_after, list_consumers
from pyspark_pravega.client.consumers.consumer import drop_consumer as drop_at_server
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConsumerInUseError, ConsumerNotFoundError

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from .positions import HEAD, find_point
from .procedure import DRY_RUN, TABLE, Call, parameter, procedure

_RIGHTS = "READ_UPDATE on the stream and on its scope"
_CONSUMER = parameter("consumer", "its name, unique in the namespace")
_NAME = column("consumer", StringType(), "its name", nullable=False)
_WHERE = "'head', 'tail', a version, a tag or a stream cut"


def _map_consumers(catalog: Catalog, stream: Stream) -> dict[str, ConsumerStatus]:
    """Return the consumers in the stream's own scope by name; a reader group of another scope may share a name."""
    consumers = list_consumers(catalog.pravega, stream)
    return {consumer.name: consumer for consumer in consumers if consumer.scope == stream.scope}


def _require(catalog: Catalog, stream: Stream, name: str) -> ConsumerStatus:
    consumers = _map_consumers(catalog, stream)
    if name not in consumers:
        raise ConsumerNotFoundError(
            f"Stream {stream} has no consumer '{name}'. It has {', '.join(sorted(consumers)) or 'none'}; see the "
            f"metadata table consumers. {catalog.named('system', 'create_consumer')} creates one."
        )
    return consumers[name]


def _to_text(cut: StreamCut | None) -> str | None:
    return None if cut is None else cut.to_text()


@procedure(
    "Makes a consumer, for which retention keeps what follows its position.",
    (TABLE, _CONSUMER, parameter("position", f"{_WHERE}; by default 'head'", optional=True)),
    (
        _NAME,
        column("stream_cut", StringType(), "its position", nullable=False),
        column("bytes_behind", LongType(), "from there to the tail"),
    ),
    _RIGHTS,
)
def create_consumer(call: Call) -> Rows:
    stream, name = call.find_stream(), call.require("consumer")
    position = find_point(call.catalog.pravega, stream, "position", call.arguments.get("position", HEAD)).cut
    if name in _map_consumers(call.catalog, stream):
        raise ConsumerInUseError(
            f"Stream {stream} has a consumer '{name}' already. Choose another name, or move it with move_consumer."
        )
    Consumer.register(call.catalog.pravega, stream, name, position)
    yield name, position.to_text(), count_bytes_after(call.catalog.pravega, position)


@procedure(
    "Moves a consumer. A query that uses it fails at its next micro-batch: stop the query first. A consumer that is "
    "moved back is created again, and holds the events that still exist.",
    (TABLE, _CONSUMER, parameter("position", _WHERE), DRY_RUN),
    (
        _NAME,
        column("before", StringType(), "its position before; null of a reader group of another client"),
        column("stream_cut", StringType(), "the new position", nullable=False),
        column("bytes_before", LongType(), "from the position before to the tail"),
        column("bytes_behind", LongType(), "from the new position to the tail"),
        column("moved", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def move_consumer(call: Call) -> Rows:
    stream, name = call.find_stream(), call.require("consumer")
    position = find_point(call.catalog.pravega, stream, "position", call.require("position")).cut
    before = _require(call.catalog, stream, name)
    moved = not call.is_set(DRY_RUN)
    if moved:
        Consumer.register(call.catalog.pravega, stream, name, position)
    behind = count_bytes_after(call.catalog.pravega, position)
    yield name, _to_text(before.position), position.to_text(), before.bytes_behind, behind, moved


@procedure(
    "Removes a consumer. Retention may free what it held.",
    (TABLE, _CONSUMER, DRY_RUN),
    (
        _NAME,
        column("stream_cut", StringType(), "its last position"),
        column("bytes_behind", LongType(), "from there to the tail"),
        column("dropped", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def drop_consumer(call: Call) -> Rows:
    stream, name = call.find_stream(), call.require("consumer")
    before = _require(call.catalog, stream, name)
    dropped = not call.is_set(DRY_RUN)
    if dropped:
        drop_at_server(call.catalog.pravega, before.scope, name)
    yield name, _to_text(before.position), before.bytes_behind, dropped
