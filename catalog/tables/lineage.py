"""Names tables for OpenLineage, so that its Spark agent knows what a query reads and writes."""

from __future__ import annotations

from pyspark_pravega.client.config import parse_controller_uri
from pyspark_pravega.client.stream import Stream

from ..storage.catalogs import Catalog

_NAMESPACE = "openlineage.dataset.namespace"
_NAME = "openlineage.dataset.name"
"""The table properties in which the agent looks for a dataset."""


def name_dataset(catalog: Catalog, stream: Stream) -> dict[str, str]:
    """Return the properties that name a table in lineage: by its cluster, and by its place there.

    The name is the same in every session, whatever the catalog is called there, and with TLS as without. Of several
    controllers it is the first, as OpenLineage has it for Kafka's brokers.
    """
    controller = parse_controller_uri(catalog.pravega.config.controller_uri)[1][0]
    return {_NAMESPACE: f"pravega://{controller}", _NAME: str(stream)}
