"""All behaviours by group, and those that `make test` checks in other front ends than PySpark."""

from __future__ import annotations

from tests.catalog.behaviours import definitions, queries, refusals, several, writing
from tests.catalog.behaviours.model import Behaviour

GROUPS = queries.ALL | definitions.ALL | writing.ALL | refusals.ALL | several.ALL

_IN_OTHER_FRONT_ENDS = {
    "reading": ("all columns of all rows, in the order of the table's columns", "bytes, even none", "LIMIT"),
    "conditions": ("equal to a text with quotes and umlauts", "times", "elements of arrays"),
    "aggregates": ("sums and means",),
    "composed": (
        "a join",
        "a temporary view of a table",
        "variables of the session",
        "a text that is put together is a name",
        "a table in memory",
    ),
    "hidden columns": ("the place of an event", "the bytes of an event"),
    "read options": ("options in the statement", "a secret in the wrong place"),
    "functions": ("the pointer of an event", "their list"),
    "errors of queries": (
        "a table that there is not",
        "a table without a namespace",
        "an expression that fails on a row",
        "an error of one's own",
        "a statement that is none",
        "a session that goes on",
    ),
    "namespaces": ("made, shown and dropped", "with comment and properties", "selected", "one of Pravega's"),
    "described": (
        "columns with types and comments",
        "all there is to know",
        "properties",
        "columns",
        "tables",
        "tables with their properties",
        "the statement that makes a table",
        "AS JSON",
        "what there is not",
    ),
    "created": ("all types, including those of JSON", "by a query", "by a query that fails", "odd names"),
    "altered": ("columns that are added", "comments", "properties"),
    "inserted": ("values, by position and by name", "no rows are no version", "several with one statement"),
    "changed": ("rows of a table of changes",),
    "history": ("versions", "as it was at a version", "changes", "segments", "what is empty", "they are only read"),
    "not created": ("a secret as a property", "a value that cannot be"),
    "not altered": ("a column that is there",),
    "of others": ("a mistyped table", "Delta's DESCRIBE HISTORY"),
    "not inserted": ("too few values", "an event that is too large", "an error in the middle", "an unknown option"),
    "several streams": ("like another",),
    "several streams refused": ("changes",),
}
"""Names of behaviours by group.

Their answers pass through code of the front end: words and cells that it shows, errors, settings of its session. Of
other kinds, one behaviour shows that the statement comes through.
"""
_IN_EVERY_FRONT_END = {"reading", "errors of queries", "created", "inserted", "history"}
"""Groups of which `make test` has these in every front end. Those of others are in the shell and JDBC by turns."""

_CHOSEN = [
    (group, next(behaviour for behaviour in GROUPS[group] if behaviour.name == name))
    for group, names in _IN_OTHER_FRONT_ENDS.items()
    for name in names
]
_IN_BRIEF = {
    front_end: [
        behaviour
        for number, (group, behaviour) in enumerate(_CHOSEN)
        if group in _IN_EVERY_FRONT_END or number % 2 == turn
    ]
    for front_end, turn in (("spark-sql", 0), ("jdbc", 1))
}


def is_at_length(front_end: str, behaviour: Behaviour) -> bool:
    """Tell whether only `make long` checks a behaviour in a front end. PySpark checks all of them in `make test`."""
    return front_end != "pyspark" and behaviour not in _IN_BRIEF.get(front_end, ())
