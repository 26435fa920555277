"""Finds where the consumer that a read names stands, for a read that begins there."""

from __future__ import annotations

import difflib

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConsumerInUseError, ConsumerNotFoundError, InvalidOptionError
from pyspark_pravega.sql import options as o


def find_consumer_cut(pravega: Pravega, stream: Stream, options: o.Options) -> StreamCut:
    """Return the position of the consumer in the options; the read does not move it.

    Raises InvalidOptionError if no consumer is named, ConsumerNotFoundError if the stream has none of that name,
    ConsumerInUseError for a reader group whose readers keep the position, StreamNotFoundError, PermissionDeniedError.
    """
    start = f"'{options.name(o.START_STREAM_CUT)}'='{o.AT_CONSUMER}'"
    name = options.get(o.CONSUMER)
    if name is None:
        raise InvalidOptionError(f"{start} needs '{o.CONSUMER.key}', the consumer where the read begins. Give both.")
    known = {one.name: one for one in list_consumers(pravega, stream) if one.scope == stream.scope}
    found = known.get(name)
    if found is None:
        near = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConsumerNotFoundError(
            f"{start}: stream {stream} has no consumer '{name}'. Its consumers: {', '.join(sorted(known)) or 'none'}."
            f"{hint} The procedure create_consumer makes one, and so does a streaming query with another start."
        )
    if found.position is None:
        raise ConsumerInUseError(
            f"{start}: '{name}' is a reader group of other clients, which keep the positions of its readers to "
            "themselves. Name a consumer of this package, or give a stream cut."
        )
    return found.position
