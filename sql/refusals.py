"""What streams cannot do, and what to use instead."""

from __future__ import annotations

_INSTEAD = {
    "INSERT OVERWRITE": "a stream only grows. Use INSERT INTO, or write to a new table and drop the old one",
    "DELETE": "events cannot be taken out of a stream. Filter when reading, or write the rows to keep to a new table",
    "UPDATE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "MERGE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "REPLACE TABLE": "a stream's events would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "a stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first",
    "RENAME": "Pravega has no rename. Create a table of the new name and INSERT INTO it from the old one",
    "ALTER TABLE": "columns and properties are fixed when a table is created. Create another table, and INSERT INTO it",
    "ALTER NAMESPACE": "a scope has no properties. Leave COMMENT and DBPROPERTIES out",
}


def refusal(statement: str, name: str) -> str:
    """Return the sentence that refuses a statement on a table or namespace."""
    reason = _INSTEAD.get(statement, "streams do not support it")
    return f"{statement} is not possible on {name}: {reason}."
