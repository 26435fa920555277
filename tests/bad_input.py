"""Watching a namespace while statements in it are refused: the message must help, and nothing may change."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PravegaError
from tests.sql_clients import SqlClient, SqlError

SECRET = "hunter2-swordfish"
"""Given in places where it does not belong; no message may repeat it."""
SQL_STATES = {error.condition: error.sql_state for error in PravegaError.__subclasses__()}
JDBC_START = "Error: org.apache.hive.service.cli.HiveSQLException: Error running query: "
"""What Spark's JDBC server and beeline put before every error."""
LONGEST = 2000
"""Characters of a message: more is a stack trace."""
LOOK_AFTER = 10
"""How many refusals may come, in a settled namespace, before the next look at what they have left there."""


@dataclass(frozen=True)
class Refusal:
    """A statement, the condition of its error, and words that must be in its message.

    `{n}` stands for the namespace, which has the table `t`.
    """

    statement: str
    condition: str
    words: tuple[str, ...]


def refusal(statement: str, condition: str, *words: str) -> Any:
    """A `Refusal` as a parameter, with a short name."""
    short = re.sub(r"\{n\}\.?|TBLPROPERTIES|USING pravega|\s+", " ", statement)
    short = re.sub(r"[^\w.,'=-]+", " ", short).strip()
    return pytest.param(Refusal(statement, condition, words), id=short[:70])


def at_length(case: Any) -> Any:
    """A case of a rule that a shorter list of cases shows too; `make long` has it."""
    return pytest.param(*case.values, id=case.id, marks=pytest.mark.long)


class Watched:
    """A namespace of its own with one table, `t (id INT, b STRING)` with the routing key `id` and two rows."""

    def __init__(self, sql: SqlClient, pravega: Pravega, scope: str, catalog: str = "pravega") -> None:
        self.sql = sql
        self.pravega = pravega
        self.scope = scope
        self.name = f"{catalog}.`{scope}`"
        sql.run(f"CREATE NAMESPACE {self.name}")
        sql.run(f"CREATE TABLE {self.name}.t (id INT, b STRING) USING pravega TBLPROPERTIES ('routing-key'='id')")
        sql.run(f"INSERT INTO {self.name}.t VALUES (1, 'x'), (2, 'y')")
        self._settled: dict[str, Any] | None = None
        self._refused: list[str] = []

    def settle(self) -> None:
        """Look what there is: from now on nothing is done here that succeeds, until the next call.

        Whoever does something nevertheless looks first.
        """
        self._settled = self.state()

    def look(self) -> None:
        """Assert, of a settled namespace, that the refusals since the last look have changed nothing in it."""
        since, self._refused = self._refused, []
        if since:
            assert self._settled is not None
            self._compare(self._settled, "one of these has changed it:\n" + "\n".join(since))

    def close(self) -> None:
        """Look once more, and drop the namespace and all that is in it."""
        try:
            self.look()
        finally:
            self.sql.run(f"DROP NAMESPACE IF EXISTS {self.name} CASCADE")

    def state(self) -> dict[str, Any]:
        """All that a statement could have left behind: streams, settings, bytes, schema groups and versions."""
        controller, registry = self.pravega.controller, self.pravega.registry(self.scope)
        streams = {}
        for name in controller.list_streams(self.scope):
            stream = Stream(self.scope, name)
            ids = [segment.segment_id for segment in controller.current_segments(stream)]
            infos = self.pravega.segments.segment_infos(stream, ids) if ids else {}
            lengths = {segment: info.write_offset for segment, info in infos.items()}
            streams[name] = (controller.stream_configuration(stream), lengths)
        groups = {name: (group, registry.versions(name)) for name, group in registry.groups().items()}
        return {"streams": streams, "groups": groups, "scopes": controller.scope_exists(self.scope)}

    def refuse(self, refusal: Refusal, **more: str) -> str:
        """Run a statement that must be refused; return its message."""
        statement = refusal.statement.format(n=self.name, **more)
        message = self.refused(lambda: self.sql.run(statement), refusal.condition, *refusal.words)
        if refusal.condition in SQL_STATES:
            assert message.removeprefix(JDBC_START).startswith(f"[{refusal.condition}] "), message
            assert "Python worker" not in message
        return message

    def refused(self, action: Callable[[], object], condition: str, *words: str) -> str:
        """Do what must be refused, and look that nothing has changed and the session still works.

        In a settled namespace a look is about several refusals.
        """
        before = self._settled or self.state()
        with pytest.raises((SqlError, PySparkException)) as caught:
            action()
        message = str(caught.value)
        _check_accessors(caught.value)
        if self.sql.name == "jdbc" and condition in SQL_STATES:
            assert f"(state={SQL_STATES[condition]},code=0)" in message
        message = own_words(message, self.sql.name)
        check_message(message, condition, *(word.format(s=self.scope) for word in words))
        if self._settled is None:
            self._compare(before, message)
        else:
            self._refused.append(message)
            if len(self._refused) == LOOK_AFTER:
                self.look()
        return message

    def _compare(self, before: dict[str, Any], messages: str) -> None:
        """Assert that there is what there was, and that SQL shows it."""
        assert self.state() == before, messages
        shown = self.sql.run(f"SHOW TABLES IN {self.name}")
        visible = [name for name in before["streams"] if not name.startswith("_")]
        assert len(shown) == len(visible) and all(name in str(shown) for name in visible), messages


def _check_accessors(error: BaseException) -> None:
    """Assert that what PySpark tells of an error of ours by its methods is what it prints."""
    shown = error.__cause__ if isinstance(error, SqlError) else error
    if isinstance(shown, PySparkException) and (condition := shown.getCondition() or "").startswith("PRAVEGA_"):
        message, parameters = shown.getMessage(), shown.getMessageParameters()
        assert str(shown).startswith(message)  # Spark adds the plan to some
        assert parameters is not None
        assert message == f"[{condition}] {parameters['message']} SQLSTATE: {shown.getSqlState()}"
        assert shown.getSqlState() == SQL_STATES[condition]


def own_words(message: str, front_end: str) -> str:
    """Leave out what a front end puts around the message of an error."""
    if front_end == "jdbc":
        # Spark's JDBC server sends every error with its Java stack.
        return re.sub(r"\n\s+(at|\.\.\.) [^\n]*|\n\s*(Caused by|Suppressed):[^\n]*", "", message)
    if front_end == "connect":
        return message.partition("\n\nJVM stacktrace:")[0]
    if front_end == "spark-sql":
        # The log of a failed task comes first, in the same terminal.
        return re.split(r"\n(?=\[[A-Z_.]+\] )", message)[-1]
    return message


def check_message(message: str, condition: str, *words: str) -> None:
    """Assert that a message has the condition and the words, and neither a secret nor a Java stack trace."""
    assert f"[{condition}" in message, message
    if condition.startswith("PRAVEGA_"):
        assert "Traceback" not in message, message
    assert not [word for word in words if word not in message], message
    assert SECRET not in message
    assert "\n\tat " not in message, message
    assert len(message) < LONGEST, message
