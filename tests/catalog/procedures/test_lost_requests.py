"""Statements on a table whose controller has lost a request: they ask again, and end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.catalog.procedures.procedure import Call, DriverWork, Procedure
from pyspark_pravega.catalog.procedures.segments import scale_stream, seal_stream
from pyspark_pravega.catalog.procedures.transactions import abort_transaction, commit_transaction
from pyspark_pravega.catalog.running.tending import QueryServers
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega, reminder
from pyspark_pravega.client import connect as connect_client
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.errors import UnsupportedOperationError
from tests.datasource.test_lost_commits import ROWS, Loss, lose_commit
from tests.datasource.transactions import begin_insert
from tests.forgetful_controller import ForgetfulController, open_forgetful


@dataclass
class Behind:
    """A table `raw` of events, and its catalog, behind a controller that forgets."""

    handler: ForgetfulController
    pravega: Pravega
    api: PravegaCatalog
    stream: Stream
    conf: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"`{self.stream.scope}`.raw"

    def lose(self) -> Loss:
        return lose_commit(self.pravega, self.handler, self.stream)

    def call(self, procedure: Procedure, **arguments: str) -> tuple[Any, ...]:
        """The only row of a procedure's result."""
        catalog = Catalog(self.conf, self.pravega)
        [row] = procedure.act(Call(catalog, {"table": self.name, **arguments}, QueryServers()))
        assert not isinstance(row, DriverWork)
        return tuple(row)


@pytest.fixture
def behind(
    client_config: ClientConfig, scope: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Behind]:
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 0.3)
    caplog.set_level(logging.WARNING)
    with open_forgetful(client_config) as (handler, config):
        servers = {"controller_uri": config.controller_uri, "schema_registry_uri": config.registry_uri}
        with connect(**servers) as api, connect_client(config) as pravega:
            made = Behind(
                handler,
                pravega,
                api,
                Stream(scope, "raw"),
                {key.replace("_", "-"): str(of) for key, of in servers.items()},
            )
            api.create_table(made.name, properties={"format": "raw", "scaling.min-segments": "2"})
            yield made


def test_a_scan_in_python(behind: Behind, caplog: pytest.LogCaptureFixture) -> None:
    loss = behind.lose()
    assert behind.api.load_table(behind.name).scan().to_arrow().num_rows == len(ROWS)
    loss.check(versions=0)
    assert f"asking the controller again to commit transaction {loss.transaction.id}" in caplog.text


def test_an_append_in_python(behind: Behind) -> None:
    loss = behind.lose()
    assert behind.api.load_table(behind.name).append(pa.table({"event": [b"new"]})) == 1
    loss.check(versions=2, rows=len(ROWS) + 1)


def test_drop_table_of_a_table_whose_commit_is_lost(behind: Behind) -> None:
    """The seal waits for the commit, so it is the commit that must be asked for again."""
    loss = behind.lose()
    behind.handler.forgets.update(sealStream=1, deleteStream=1)
    behind.api.drop_table(behind.name)
    assert not behind.pravega.controller.stream_exists(behind.stream)
    assert behind.handler.asked["commitTransaction"] >= 2  # a busy controller may be asked once more meanwhile
    assert behind.handler.asked["deleteStream"] >= 2
    assert loss.transaction.status() is TransactionStatus.COMMITTED


def test_drop_namespace(behind: Behind) -> None:
    """Each stream and key-value table of it is asked for again."""
    behind.api.load_table(behind.name).append(pa.table({"event": [b"new"]}))
    behind.handler.forgets.update(sealStream=1, deleteStream=1, deleteKeyValueTable=2)
    behind.api.drop_namespace(f"`{behind.stream.scope}`", cascade=True)
    assert not behind.pravega.controller.scope_exists(behind.stream.scope)
    assert all(behind.handler.asked[call] >= 2 for call in ("sealStream", "deleteStream", "deleteKeyValueTable"))


def test_seal_stream(behind: Behind) -> None:
    loss = behind.lose()
    behind.handler.forgets["sealStream"] = 1
    _, waiting, sealed = behind.call(seal_stream)
    assert (waiting, sealed) == (1, True)
    assert behind.pravega.controller.current_segments(behind.stream) == []
    loss.check(versions=0)


def test_scale_stream(behind: Behind) -> None:
    behind.handler.forgets["scale"] = 1
    assert behind.call(scale_stream, segments="4")[-1] is True
    assert len(behind.pravega.controller.current_segments(behind.stream)) == 4
    assert behind.handler.asked["scale"] == 2


def test_commit_transaction_of_an_insert_that_is_stuck(behind: Behind) -> None:
    """What a reader's error tells to do: the server is asked once more, and the INSERT becomes its version."""
    loss = behind.lose()
    transaction = str(loss.transaction.id)
    assert behind.call(commit_transaction, transaction=transaction) == (transaction, len(ROWS), "committed")
    loss.check()
    head = CommitLog(behind.pravega, behind.stream).head()
    assert head is not None and head.committing == ()


def test_commit_transaction_of_another_program_that_is_stuck(behind: Behind) -> None:
    """What it holds, only its writer knows; the next version has it."""
    insert, _ = begin_insert(behind.pravega, behind.stream, ROWS)
    behind.handler.forgets["commitTransaction"] = 1
    behind.pravega.controller.commit_transaction(behind.stream, insert.transaction.id)
    insert.transaction.stop()
    transaction = str(insert.transaction.id)
    assert behind.call(commit_transaction, transaction=transaction) == (transaction, None, "committed")
    Loss(behind.pravega, behind.handler, behind.stream, insert.transaction).check(versions=0)


def test_commit_transaction_of_an_open_one_is_refused_as_ever(behind: Behind) -> None:
    insert, _ = begin_insert(behind.pravega, behind.stream, ROWS)
    assert CommitLog(behind.pravega, behind.stream).enter(insert.transaction.id, rows=len(ROWS), operation="INSERT")
    with pytest.raises(UnsupportedOperationError, match="waits for its commit"):
        behind.call(commit_transaction, transaction=str(insert.transaction.id), complete="true")
    assert behind.handler.calls["commitTransaction"] == 0
    insert.abort()


def test_abort_transaction_again(behind: Behind) -> None:
    insert, _ = begin_insert(behind.pravega, behind.stream, ROWS)
    behind.handler.forgets["abortTransaction"] = 1
    insert.abort()
    assert behind.call(abort_transaction, transaction=str(insert.transaction.id))[1:] == ("aborting", True)
    assert behind.handler.asked["abortTransaction"] == 2
