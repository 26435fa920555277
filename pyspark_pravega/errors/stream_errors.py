"""Errors about scopes, streams and what belongs to them: segments, transactions, positions of queries."""

from __future__ import annotations

from .root import PravegaError


class ScopeNotFoundError(PravegaError, condition="PRAVEGA_SCOPE_NOT_FOUND", sql_state="42704"):
    """There is no such scope. In SQL this is Spark's `SCHEMA_NOT_FOUND`."""

    cure = "Look at `SHOW NAMESPACES IN pravega`, and create it with `CREATE NAMESPACE`."


class ScopeExistsError(PravegaError, condition="PRAVEGA_SCOPE_EXISTS", sql_state="42P06"):
    """There is such a scope already. In SQL this is Spark's `SCHEMA_ALREADY_EXISTS`."""

    cure = "Use another name, or `CREATE NAMESPACE IF NOT EXISTS`."


class ScopeNotEmptyError(PravegaError, condition="PRAVEGA_SCOPE_NOT_EMPTY", sql_state="2BP01"):
    """A scope that still has streams cannot be dropped. In SQL this is Spark's `SCHEMA_NOT_EMPTY`."""

    cure = "Drop its tables first, or use `DROP NAMESPACE ... CASCADE`."


class StreamNotFoundError(PravegaError, condition="PRAVEGA_STREAM_NOT_FOUND", sql_state="42P01"):
    """There is no such stream. In SQL this is Spark's `TABLE_OR_VIEW_NOT_FOUND`."""

    cure = (
        "Look at `SHOW TABLES IN pravega.<scope>`. A query also fails like this if its stream is dropped while it runs."
    )
    was_dropped = False
    """Whether the message says that the stream has been dropped, and what to do."""

    @classmethod
    def dropped(cls, message: str) -> StreamNotFoundError:
        """Return the error for a stream that used to exist. Its message says what to do."""
        error = cls(message)
        error.was_dropped = True
        return error


class MemberNotFoundError(PravegaError, condition="PRAVEGA_MEMBER_NOT_FOUND", sql_state="42704"):
    """A table of several streams names a stream that does not exist, or its pattern matches none."""

    cure = (
        "Create the stream; or `DROP TABLE`, which drops the name alone, and `CREATE TABLE` that names other streams."
    )


class StreamExistsError(PravegaError, condition="PRAVEGA_STREAM_EXISTS", sql_state="42P07"):
    """There is such a stream already. In SQL this is Spark's `TABLE_OR_VIEW_ALREADY_EXISTS`."""

    cure = "Use another name, or `CREATE TABLE IF NOT EXISTS`."


class ViewNotFoundError(PravegaError, condition="PRAVEGA_VIEW_NOT_FOUND", sql_state="42P01"):
    """There is no such view. In SQL this is Spark's `VIEW_NOT_FOUND`."""

    cure = "Look at `SHOW VIEWS IN pravega.<scope>`."


class ViewExistsError(PravegaError, condition="PRAVEGA_VIEW_EXISTS", sql_state="42P07"):
    """There is a view of this name already. In SQL this is Spark's `TABLE_OR_VIEW_ALREADY_EXISTS`."""

    cure = "Use another name, or `CREATE OR REPLACE VIEW` for a view."


class StreamSealedError(PravegaError, condition="PRAVEGA_STREAM_SEALED", sql_state="55000"):
    """The stream was sealed: it can be read, but takes no more events."""

    cure = "Write to another stream. A sealed stream cannot be opened again."


class SegmentNotFoundError(PravegaError, condition="PRAVEGA_SEGMENT_NOT_FOUND", sql_state="42704"):
    """A segment never existed, or was deleted with its stream or by truncation."""

    cure = "Run the statement again: it then starts from the segments that the stream has now."


class SegmentSealedError(PravegaError, condition="PRAVEGA_SEGMENT_SEALED", sql_state="55000"):
    """A segment takes no more events, because its stream was scaled or sealed."""

    cure = "Run the statement again: it then writes to the segments that the stream has now."


class KeyValueTableNotFoundError(PravegaError, condition="PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND", sql_state="42704"):
    """There is no such key-value table. The commit log of a scope's tables is one."""

    cure = "Run the statement again; a commit log that is missing is created by the next `INSERT`."


class ConditionalUpdateError(PravegaError, condition="PRAVEGA_CONDITIONAL_UPDATE_FAILED", sql_state="40001"):
    """A compare-and-set lost: the stored version is not the expected one, because another writer was faster."""

    cure = "Run the statement again."


class DataLossError(PravegaError, condition="PRAVEGA_DATA_LOSS", sql_state="KD000"):
    """Events that a scan should return were truncated, by retention or by hand."""

    cure = "Start from a later position, or set the read option `fail-on-data-loss` to `false` to read what is left. \
A longer `retention.minimum` keeps events until they are read, and so does a `consumer`: \
[Streaming](streaming.md#when-retention-was-faster)."


class CheckpointError(PravegaError, condition="PRAVEGA_CHECKPOINT_MISMATCH", sql_state="55019"):
    """The checkpoint of a streaming query does not fit the stream or the table that the query reads."""

    cure = "Do what the message says. A query with a new checkpoint location starts where its start options say."


class TransactionNotOpenError(PravegaError, condition="PRAVEGA_TRANSACTION_NOT_OPEN", sql_state="25000"):
    """The transaction was aborted or timed out before it was committed; no row of it is visible."""

    cure = "Run the statement again. If it waits longer than `transaction.timeout`, set a longer one."


class ConcurrentChangeError(PravegaError, condition="PRAVEGA_CONCURRENT_CHANGE", sql_state="40001"):
    """Others changed rows that an UPDATE, DELETE or MERGE depends on, after it had read them; it wrote nothing."""

    cure = "Run the statement again: it then reads the newer rows. \
[Tables that change](tables-that-change.md#at-the-same-time) says which statements disturb each other."


class TransactionMismatchError(PravegaError, condition="PRAVEGA_TRANSACTION_MISMATCH", sql_state="40000"):
    """A transaction holds other bytes than its tasks reported; it was aborted, nothing is visible."""

    cure = "Run the statement again."


class TransactionOutcomeUnknownError(PravegaError, condition="PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN", sql_state="08007"):
    """The servers stopped answering during a commit: all of the transaction will be visible, or nothing."""

    cure = "Wait until the servers answer, and check whether the rows are there before you run the statement again."


class WriterFencedError(PravegaError, condition="PRAVEGA_WRITER_FENCED", sql_state="40000"):
    """Another attempt of the same task took over the writer."""

    cure = "Nothing, because the other attempt continues. If the whole statement failed, run it again."


class ConsumerInUseError(PravegaError, condition="PRAVEGA_CONSUMER_IN_USE", sql_state="55006"):
    """A consumer's name belongs to another query, stream or reader group."""

    cure = "Give each query its own `consumer`. `pyspark-pravega consumers list` shows the existing ones."


class ConsumerNotFoundError(PravegaError, condition="PRAVEGA_CONSUMER_NOT_FOUND", sql_state="42704"):
    """There is no such consumer, or it was dropped while a query used it."""

    cure = "Look at `pyspark-pravega consumers list`. A query creates its consumer when it is started again."


class QueryFencedError(PravegaError, condition="PRAVEGA_QUERY_FENCED", sql_state="40000"):
    """Another run of the query, another batch with its number, or another writer with its `txn-app-id` replaced it."""

    cure = "Stop the other run, if it runs by mistake. A checkpoint that was copied, or reset to an older \
state, cannot be resumed: start the query with a new checkpoint, which makes it a new query. Writers that write \
at the same time need a `txn-app-id` each."


class QueryExistsError(PravegaError, condition="PRAVEGA_QUERY_EXISTS", sql_state="42710"):
    """A streaming query of this name, or with this checkpoint, exists already."""

    cure = "Choose another name and checkpoint, or end the other query with `CALL <catalog>.system.stop_query`. \
`SELECT * FROM <catalog>.system.queries` lists all."


class QueryNotFoundError(PravegaError, condition="PRAVEGA_QUERY_NOT_FOUND", sql_state="42704"):
    """There is no streaming query of this name."""

    cure = "Look at `SELECT * FROM <catalog>.system.queries`. A user sees the queries of the scopes that may be read."


class QueryNotStartedError(PravegaError, condition="PRAVEGA_QUERY_NOT_STARTED", sql_state="55000"):
    """Spark does not start a streaming query, or has not stopped it in time; the message says why."""

    cure = (
        "Correct what the message names, and call the procedure again. Nothing is left of a query that did not start."
    )
