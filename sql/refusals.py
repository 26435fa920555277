"""What streams cannot do, and what to use instead."""

from __future__ import annotations

_INSTEAD = {
    "INSERT OVERWRITE": "a stream only grows. Use INSERT INTO, or write to a new table and drop the old one",
    "DELETE": "events cannot be taken out of a stream. Filter when reading, or write the rest to a new table",
    "TRUNCATE TABLE": "a table is not emptied and kept. Use DROP TABLE and CREATE TABLE, or the property 'retention.type'",
    "UPDATE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "MERGE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "REPLACE TABLE": "a stream's events would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "a stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first",
    "RENAME": "Pravega has no rename. Create a table of the new name and INSERT INTO it from the old one",
    "VERSION AS OF": "tables are read as they are now. Use the read option 'end-stream-cut' to read up to a position",
    "TIMESTAMP AS OF": "tables are read as they are now. Use the read option 'end-stream-cut' to read up to a position",
    "ALTER NAMESPACE": "a scope has no properties, comment or location. Leave them out",
    "CREATE NAMESPACE with properties": "a scope has no comment, location or properties. Leave them out",
}


def refusal(statement: str, name: str) -> str:
    """Return the sentence that refuses a statement on a table or namespace."""
    reason = _INSTEAD.get(statement, "streams do not support it")
    return f"{statement} is not possible on {name}: {reason}."
