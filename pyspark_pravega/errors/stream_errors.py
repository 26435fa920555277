"""Errors about scopes, streams and what belongs to them: segments, transactions, positions of queries."""

from __future__ import annotations

from .root import PravegaError


class ScopeNotFoundError(PravegaError):
    """There is no such scope. In SQL this is Spark's `SCHEMA_NOT_FOUND`."""

    condition = "PRAVEGA_SCOPE_NOT_FOUND"
    sql_state = "42704"
    cure = "Look at `SHOW NAMESPACES IN pravega`, and create it with `CREATE NAMESPACE`."


class ScopeExistsError(PravegaError):
    """There is such a scope already. In SQL this is Spark's `SCHEMA_ALREADY_EXISTS`."""

    condition = "PRAVEGA_SCOPE_EXISTS"
    sql_state = "42P06"
    cure = "Use another name, or `CREATE NAMESPACE IF NOT EXISTS`."


class ScopeNotEmptyError(PravegaError):
    """A scope that still has streams cannot be dropped. In SQL this is Spark's `SCHEMA_NOT_EMPTY`."""

    condition = "PRAVEGA_SCOPE_NOT_EMPTY"
    sql_state = "2BP01"
    cure = "Drop its tables first, or use `DROP NAMESPACE ... CASCADE`."


class StreamNotFoundError(PravegaError):
    """There is no such stream. In SQL this is Spark's `TABLE_OR_VIEW_NOT_FOUND`."""

    condition = "PRAVEGA_STREAM_NOT_FOUND"
    sql_state = "42P01"
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


class MemberNotFoundError(PravegaError):
    """A table of several streams names a stream that does not exist, or its pattern matches none."""

    condition = "PRAVEGA_MEMBER_NOT_FOUND"
    sql_state = "42704"
    cure = (
        "Create the stream; or `DROP TABLE`, which drops the name alone, and `CREATE TABLE` that names other streams."
    )


class StreamExistsError(PravegaError):
    """There is such a stream already. In SQL this is Spark's `TABLE_OR_VIEW_ALREADY_EXISTS`."""

    condition = "PRAVEGA_STREAM_EXISTS"
    sql_state = "42P07"
    cure = "Use another name, or `CREATE TABLE IF NOT EXISTS`."


class ViewNotFoundError(PravegaError):
    """There is no such view. In SQL this is Spark's `VIEW_NOT_FOUND`."""

    condition = "PRAVEGA_VIEW_NOT_FOUND"
    sql_state = "42P01"
    cure = "Look at `SHOW VIEWS IN pravega.<scope>`."


class ViewExistsError(PravegaError):
    """There is a view of this name already. In SQL this is Spark's `TABLE_OR_VIEW_ALREADY_EXISTS`."""

    condition = "PRAVEGA_VIEW_EXISTS"
    sql_state = "42P07"
    cure = "Use another name, or `CREATE OR REPLACE VIEW` for a view."


class StreamSealedError(PravegaError):
    """The stream was sealed: it can be read, but takes no more events."""

    condition = "PRAVEGA_STREAM_SEALED"
    sql_state = "55000"
    cure = "Write to another stream. A sealed stream cannot be opened again."


class SegmentNotFoundError(PravegaError):
    """A segment never existed, or was deleted with its stream or by truncation."""

    condition = "PRAVEGA_SEGMENT_NOT_FOUND"
    sql_state = "42704"
    cure = "Run the statement again: it then starts from the segments that the stream has now."


class SegmentSealedError(PravegaError):
    """A segment takes no more events, because its stream was scaled or sealed."""

    condition = "PRAVEGA_SEGMENT_SEALED"
    sql_state = "55000"
    cure = "Run the statement again: it then writes to the segments that the stream has now."


class KeyValueTableNotFoundError(PravegaError):
    """There is no such key-value table. The commit log of a scope's tables is one."""

    condition = "PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND"
    sql_state = "42704"
    cure = "Run the statement again; a commit log that is missing is created by the next `INSERT`."


class ConditionalUpdateError(PravegaError):
    """A compare-and-set lost: the stored version is not the expected one, because another writer was faster."""

    condition = "PRAVEGA_CONDITIONAL_UPDATE_FAILED"
    sql_state = "40001"
    cure = "Run the statement again."


class DataLossError(PravegaError):
    """Events that a scan should return were truncated, by retention or by hand."""

    condition = "PRAVEGA_DATA_LOSS"
    sql_state = "KD000"
    cure = "Start from a later position, or set the read option `fail-on-data-loss` to `false` to read what is left. \
A longer `retention.minimum` keeps events until they are read, and so does a `consumer`: \
[Streaming](streaming.md#when-retention-was-faster)."


class CheckpointError(PravegaError):
    """The checkpoint of a streaming query does not fit the stream or the table that the query reads."""

    condition = "PRAVEGA_CHECKPOINT_MISMATCH"
    sql_state = "55019"
    cure = "Do what the message says. A query with a new checkpoint location starts where its start options say."


class TransactionNotOpenError(PravegaError):
    """The transaction was aborted or timed out before it was committed; no row of it is visible."""

    condition = "PRAVEGA_TRANSACTION_NOT_OPEN"
    sql_state = "25000"
    cure = "Run the statement again. If it waits longer than `transaction.timeout`, set a longer one."


class ConcurrentChangeError(PravegaError):
    """Others changed rows that an UPDATE, DELETE or MERGE depends on, after it had read them; it wrote nothing."""

    condition = "PRAVEGA_CONCURRENT_CHANGE"
    sql_state = "40001"
    cure = "Run the statement again: it then reads the newer rows. \
[Tables that change](tables-that-change.md#at-the-same-time) says which statements disturb each other."


class TransactionMismatchError(PravegaError):
    """A transaction holds other bytes than its tasks reported; it was aborted, nothing is visible."""

    condition = "PRAVEGA_TRANSACTION_MISMATCH"
    sql_state = "40000"
    cure = "Run the statement again."


class TransactionOutcomeUnknownError(PravegaError):
    """The servers stopped answering during a commit: all of the transaction will be visible, or nothing."""

    condition = "PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN"
    sql_state = "08007"
    cure = "Wait until the servers answer, and check whether the rows are there before you run the statement again."


class WriterFencedError(PravegaError):
    """Another attempt of the same task took over the writer."""

    condition = "PRAVEGA_WRITER_FENCED"
    sql_state = "40000"
    cure = "Nothing, because the other attempt continues. If the whole statement failed, run it again."


class ConsumerInUseError(PravegaError):
    """A consumer's name belongs to another query, stream or reader group."""

    condition = "PRAVEGA_CONSUMER_IN_USE"
    sql_state = "55006"
    cure = "Give each query its own `consumer`. `pyspark-pravega consumers list` shows the existing ones."


class ConsumerNotFoundError(PravegaError):
    """There is no such consumer, or it was dropped while a query used it."""

    condition = "PRAVEGA_CONSUMER_NOT_FOUND"
    sql_state = "42704"
    cure = "Look at `pyspark-pravega consumers list`. A query creates its consumer when it is started again."


class QueryFencedError(PravegaError):
    """Another run of the query, another batch with its number, or another writer with its `txn-app-id` replaced it."""

    condition = "PRAVEGA_QUERY_FENCED"
    sql_state = "40000"
    cure = "Stop the other run, if it runs by mistake. A checkpoint that was copied, or reset to an older \
state, cannot be resumed: start the query with a new checkpoint, which makes it a new query. Writers that write \
at the same time need a `txn-app-id` each."


class QueryExistsError(PravegaError):
    """A streaming query of this name, or with this checkpoint, exists already."""

    condition = "PRAVEGA_QUERY_EXISTS"
    sql_state = "42710"
    cure = "Choose another name and checkpoint, or end the other query with `CALL <catalog>.system.stop_query`. \
`SELECT * FROM <catalog>.system.queries` lists all."


class QueryNotFoundError(PravegaError):
    """There is no streaming query of this name."""

    condition = "PRAVEGA_QUERY_NOT_FOUND"
    sql_state = "42704"
    cure = "Look at `SELECT * FROM <catalog>.system.queries`. A user sees the queries of the scopes that may be read."


class QueryNotStartedError(PravegaError):
    """Spark does not start a streaming query, or has not stopped it in time; the message says why."""

    condition = "PRAVEGA_QUERY_NOT_STARTED"
    sql_state = "55000"
    cure = (
        "Correct what the message names, and call the procedure again. Nothing is left of a query that did not start."
    )
