"""The data source `pravega` of `spark.read` and `df.write` without the adapter's jar on the class path.

With the jar, Spark uses its `PravegaSource` instead, which asks the catalog service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import datasource as spark_sources
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import describe_refusal

from .connecting import read_client_config
from .insert.commit import WriteSettings
from .insert.epoch_commit import commit_epoch, read_seen_state
from .insert.insert import Insert
from .insert.ledger import Epoch
from .insert.outcomes import clean_up
from .insert.prepare import find_epoch_of_application, refuse_columns, write_settings
from .insert.reports import InsertMessage
from .insert.task import InsertSpec, InsertWriter
from .kinds.opening import open_table
from .scan.event_planning import make_full_schema
from .scan.scan_request import ScanRequest
from .table_of_options import load_table_of_options
from .tables.open_table import resolve_read
from .workers.user_errors import shorten_errors

_LONGEST_LEASE = 600.0  # seconds; the server's limit


class PravegaDataSource(spark_sources.DataSource):
    """Reads and writes a stream without a catalog, by `spark.read` and `df.write`.

    Where this package is installed, Spark finds it by the name `pravega`. The stream may be `name$type`, for its events
    of one type, or `name$changelog`.

    `options`: read or write options of docs/options.md. Spark passes what `option` and `options` set.

    Examples
    --------
    >>> temperatures = (
    ...     spark.read.format("pravega")
    ...     .option("controller-uri", "tcp://localhost:9090")
    ...     .option("scope", "plant")
    ...     .option("stream", "temperatures")
    ...     .load()
    ... )
    >>> temperatures.where("celsius > 80").show()
    """

    @classmethod
    def name(cls) -> str:
        return "pravega"

    @shorten_errors
    def schema(self) -> StructType:
        """Return the stream's columns and its hidden columns."""
        if "owner" in self.options:  # only CREATE TABLE adds it; later options of the table would be lost
            raise self._describe_refusal("CREATE TABLE ... USING pravega in spark_catalog")
        options = self._read_options()
        with connect(read_client_config(options)) as pravega:
            table = load_table_of_options(pravega, options, None)
            return make_full_schema(table, resolve_read(o.resolve, table, self.options))

    @shorten_errors
    def reader(self, schema: StructType) -> spark_sources.DataSourceReader:
        """Plan the scan; raises the errors of `plan_scan`."""
        options = self._read_options()
        with connect(read_client_config(options)) as pravega:
            table = load_table_of_options(pravega, options, schema)
            opened = open_table(pravega, table, resolve_read(o.resolve, table, self.options))
            return opened.plan_scan(ScanRequest(schema)).reader

    @shorten_errors
    def writer(self, schema: StructType, overwrite: bool) -> spark_sources.DataSourceWriter:
        """Begin the transaction of one `df.write`."""
        if overwrite:
            raise self._describe_refusal("mode('overwrite')")
        options = _resolve(write=self.options)
        # No service keeps this transaction alive: every task does, and the longest lease covers the time between.
        own = write_settings(options)
        settings = WriteSettings(_LONGEST_LEASE, own.commit_timeout, own.spool_memory)
        with connect(read_client_config(options)) as pravega:
            table = load_table_of_options(pravega, options, schema, writing=True)
            refuse_columns(options, "in Spark without the adapter's jar", o.STREAM_COLUMN, o.DELETE_COLUMN)
            prepared = open_table(pravega, table, options).prepare_insert(schema)
            if (plain := prepared.make_plain_writer(schema)) is not None:
                return plain
            if prepared.choose_writer() is not InsertWriter:
                raise self._describe_refusal("Writing with 'insert.conflict'='fail' without the adapter's jar")
            table = prepared.table
            if (epoch := find_epoch_of_application(options)) is not None:
                epoch = replace(epoch, seen=read_seen_state(pravega, table, epoch))
            insert = Insert.begin(pravega, table, settings)
            try:
                return TransactionalWriter(insert.spec(schema), epoch)
            except BaseException:
                insert.abort()
                raise

    def streamReader(self, schema: StructType) -> spark_sources.DataSourceStreamReader:
        """Return a reader whose first answer is the error that says what streams need.

        Spark loses errors that are raised here.
        """
        return _RefusedReader(self._describe_refusal("readStream without the adapter's jar"))

    @shorten_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> spark_sources.DataSourceStreamWriter:
        """Raise the error that says what streams need."""
        raise self._describe_refusal("writeStream without the adapter's jar")

    def _read_options(self) -> o.Options:
        options = _resolve(read=self.options)
        if options.get(o.CHANGES):
            raise self._describe_refusal("option('changes', 'true') without the adapter's jar")
        return options

    def _describe_refusal(self, statement: str) -> UnsupportedOperationError:
        texts = [self.options[option.key] for option in (o.SCOPE, o.STREAM) if self.options.get(option.key)]
        return UnsupportedOperationError(describe_refusal(statement, "/".join(texts) or "a stream"))


class _RefusedReader(spark_sources.DataSourceStreamReader):
    def __init__(self, error: UnsupportedOperationError) -> None:
        self._error = error

    @shorten_errors
    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    def read(self, partition: spark_sources.InputPartition) -> Iterator[tuple[Any, ...]]:
        raise self._error


class TransactionalWriter(InsertWriter):
    """The tasks' writer, which also commits: Spark calls `commit` and `abort` on a copy in another process."""

    def __init__(self, spec: InsertSpec, epoch: Epoch | None) -> None:
        super().__init__(spec)
        self._epoch = epoch

    @shorten_errors
    def commit(self, messages: Sequence[spark_sources.WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible at once."""
        with connect(self._spec.config) as pravega:
            insert, reports = self._insert(pravega), [one for one in messages if isinstance(one, InsertMessage)]
            if self._epoch is None:
                insert.commit(reports)
            else:
                commit_epoch(insert, reports, self._epoch)

    @shorten_errors
    def abort(self, messages: Sequence[spark_sources.WriterCommitMessage | None]) -> None:
        """Give the transaction up. Raises nothing, because that would hide why Spark aborts."""
        with connect(self._spec.config) as pravega:
            clean_up(self._insert(pravega).abort)

    def _insert(self, pravega: Pravega) -> Insert:
        return Insert(pravega, self._spec.table, self._spec.rejoin(pravega), self._spec.settings)


def _resolve(*, read: Mapping[str, str] | None = None, write: Mapping[str, str] | None = None) -> o.Options:
    options = o.resolve(read=read, write=write)
    if options.is_set(o.CATALOG):
        raise InvalidOptionError(
            f"'{o.CATALOG.key}'='{options.get(o.CATALOG)}' needs the adapter's jar. Build the session "
            "with pyspark_pravega.configure(), or leave the option out."
        )
    return options
