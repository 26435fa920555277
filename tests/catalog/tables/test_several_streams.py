"""Several streams as one in the service: a stream that is dropped in between two requests."""

from __future__ import annotations

import pytest

from pyspark_pravega.catalog import protocol as r
from pyspark_pravega.catalog.creation.making import create
from pyspark_pravega.catalog.protocol.service_replies import PlannedRead
from pyspark_pravega.catalog.storage.catalogs import BY_OPTIONS, Catalog
from pyspark_pravega.catalog.storage.dropping import drop_stream
from pyspark_pravega.catalog.streaming.micro_batches import StreamingReads
from pyspark_pravega.catalog.tables.description import identify_members
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.stream_source.admission import NO_LIMITS
from pyspark_pravega.datasource.stream_source.source import BatchRange, MicroBatchEnd
from pyspark_pravega.datasource.table_of_options import load_table_of_options
from pyspark_pravega.errors import StreamNotFoundError
from tests.datasource.scans import KEYED, insert_numbers


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_stream_that_is_dropped_before_its_micro_batch_is_planned(
    client_config: ClientConfig, scope: str, strict: str
) -> None:
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    options = {"scope": scope, "streams": "a,b,c", "fail-on-data-loss": strict}
    with connect(client_config) as pravega:
        catalog, reads = Catalog({**conf, BY_OPTIONS: "true"}, pravega), StreamingReads()
        for name in "abc":
            made = create(catalog, r.CreateTable.of([scope], name, KEYED, {"format": "json"}, adopt=False))
            insert_numbers(pravega, made.table, 0, 10)
        table = identify_members(catalog, load_table_of_options(pravega, catalog.options(read=options), None))
        query = r.StreamQuery(table, None, table.schema, options, "checkpoint")
        start = reads.answer(catalog, r.StartOfStream(query))
        assert isinstance(start, str)
        end = reads.answer(catalog, r.EndOfMicroBatch(query, start, None, NO_LIMITS))
        assert isinstance(end, MicroBatchEnd)
        drop_stream(catalog, Stream(scope, "b"))
        asked = r.PlanMicroBatch(query, BatchRange(start, end.offset))
        if strict == "true":
            with pytest.raises(StreamNotFoundError, match="'b' in scope .* any more: it has been dropped"):
                reads.answer(catalog, asked)
            return
        planned = reads.answer(catalog, asked)
    assert isinstance(planned, PlannedRead) and planned.tasks is not None
    assert len(planned.tasks.partitions) == 2
