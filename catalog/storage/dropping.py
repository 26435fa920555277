"""Removes what was made: drops streams with all that belongs to them, and undoes statements that fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.consumers.consumer import drop_consumers_of
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.errors import PravegaError, SchemaNotFoundError, StreamNotFoundError

from .catalogs import Catalog

LOG = logging.getLogger(__name__)
Undo: TypeAlias = Callable[[], None]


def drop_stream(catalog: Catalog, stream: Stream) -> bool:
    """Drop a stream and all that belongs to it; False when there is none.

    The stream goes last: as long as it is there, DROP TABLE can be given again after a failure. It is sealed first,
    which shows that the user may delete it.
    """
    controller = catalog.pravega.controller
    if not controller.stream_exists(stream):
        return False
    log = CommitLog(catalog.pravega, stream)
    rows: list[tuple[bytes, int]] = []
    try:
        if catalog.pravega.config.registry_uri is not None:
            registry = catalog.pravega.registry(stream.scope)
            try:
                registry.group(stream.name)
                _seal(catalog, stream)
                registry.delete_group(stream.name)
            except SchemaNotFoundError:
                LOG.debug("Stream %s had no schema group.", stream)
        rows = log.rows()  # once the stream is gone, others may make it again and commit to it
        delete_stream(catalog, stream)
    except StreamNotFoundError:
        LOG.debug("Stream %s was dropped by another user at the same time.", stream)
    log.remove(rows)
    return True


def delete_stream(catalog: Catalog, stream: Stream) -> None:
    """Delete a stream with what Pravega keeps of its consumers. Raises StreamNotFoundError."""
    if _seal(catalog, stream):
        drop_consumers_of(catalog.pravega, stream)
    catalog.pravega.controller.delete_stream(stream)


def delete_if_there(catalog: Catalog, stream: Stream) -> None:
    if catalog.pravega.controller.stream_exists(stream):
        delete_stream(catalog, stream)


def _seal(catalog: Catalog, stream: Stream) -> bool:
    """Seal a stream that is to be deleted; False for one that was only half made: the server never seals it."""
    if catalog.pravega.controller.is_half_made(stream):
        return False
    catalog.pravega.controller.seal_stream(stream, CommitLog(catalog.pravega, stream).remind)
    return True


@contextmanager
def undo_on_failure(
    statement: str, is_ours: Callable[[], bool] = lambda: True, seconds: float = float("inf")
) -> Iterator[list[Undo]]:
    """Run the collected steps backwards when the body fails; the body's error is the one that counts.

    Each only while `is_ours` says that what it undoes is the statement's own. All together take `seconds` at most.
    """
    steps: list[Undo] = []
    try:
        yield steps
    except BaseException:
        with cancellation.shield(), limit_retries(seconds):
            for step in reversed(steps):
                try:
                    if not is_ours():
                        LOG.warning(
                            "A failed %s is not undone: the stream does not belong to it, or no longer does.", statement
                        )
                        break
                    step()
                except PravegaError as error:
                    LOG.warning("Undoing a failed %s: %s", statement, error)
        raise
