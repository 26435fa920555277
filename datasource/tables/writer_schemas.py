"""Finds the schemas of the programs that wrote events: what the tasks of a scan know of them, and ask the registry."""

from __future__ import annotations

from typing import Any

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.confluent import ConfluentRegistry
from pyspark_pravega.client.registry.registry_types import Encoding
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import SchemaNotFoundError
from pyspark_pravega.formats.core.format import WriterSchema
from pyspark_pravega.formats.core.framing import CONFLUENT


class WriterSchemas:
    """Finds the schema of an event's writer by the encoding id in its header.

    Travels to tasks with the ids known at planning; the registry is asked once for an id that appears later.
    """

    def __init__(self, config: ClientConfig, stream: Stream, framing: str = "registry") -> None:
        self._config = config
        self._stream = stream
        self._is_confluent = framing == CONFLUENT
        self._known: dict[int, Encoding] = {}
        self._registry: SchemaRegistry | ConfluentRegistry | None = None
        self._kept: SchemaRegistry | None = None

    def ask(self, registry: SchemaRegistry) -> None:
        """Use this registry until `close`, which leaves it open, instead of its own connection; not for Confluent's."""
        self._kept = None if self._is_confluent else registry

    def know(self, encoding_id: int, encoding: Encoding) -> None:
        """Note what an id stands for, so that the registry is not asked."""
        self._known[encoding_id] = encoding

    def __call__(self, encoding_id: int) -> WriterSchema:
        """Return the writer's schema; SchemaNotFoundError if the registry has no such id."""
        encoding = self.encoding(encoding_id)
        return WriterSchema(schema_text=encoding.schema.text, format=encoding.schema.format, codec=encoding.codec)

    def encoding(self, encoding_id: int) -> Encoding:
        """Return what an encoding id stands for; SchemaNotFoundError if the registry has no such id."""
        encoding = self._known.get(encoding_id)
        if encoding is None:
            if self._config.registry_uri is None and not self._is_confluent:
                raise SchemaNotFoundError(
                    f"Events of stream {self._stream} carry encoding id {encoding_id}, but no schema registry is "
                    "configured. Set 'schema-registry-uri'."
                )
            registry = self._kept or self._registry
            if registry is None:
                if self._is_confluent:
                    registry = self._registry = ConfluentRegistry(self._config)
                else:
                    registry = self._registry = SchemaRegistry(self._config, self._stream.scope)
            # Kept connections outlive a group that is recreated, and its ids.
            encoding = self._known[encoding_id] = registry.encoding(self._stream.name, encoding_id)
        return encoding

    def known(self, encoding_id: int) -> Encoding | None:
        """Return what an encoding id stands for, without asking the registry; None if that is not known yet."""
        return self._known.get(encoding_id)

    def close(self) -> None:
        """End the connection to the registry. Known ids stay known; an unknown one connects again."""
        self._kept = None
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_registry": None, "_kept": None}
