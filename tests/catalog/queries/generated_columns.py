"""Columns of tables for queries that are generated: values at the limits of their types, others, and nulls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column: its type, values that tell one meaning of an operation from another, and an expression for others."""

    name: str
    type: str
    values: tuple[str, ...]
    other: str = "NULL"

    def source(self, place: int) -> str:
        """An expression for the column of the row `id`: an eighth of the rows or so is null."""
        if not self.values:
            return f"CAST({self.other} AS {self.type}) AS {self.name}"
        some = ", ".join([*self.values, "NULL"])
        value = f"element_at(array({some}), int(pmod(hash(id, {place}), {len(self.values) + 1})) + 1)"
        return f"CAST(IF(hash(id, {place}, 1) % 3 = 0, {self.other}, {value}) AS {self.type}) AS {self.name}"


COLUMNS = (
    Column("id", "BIGINT", (), "id"),
    Column("k", "INT", ("0", "1", "2", "3")),
    Column("y", "TINYINT", ("0Y", "1Y", "-128Y", "127Y"), "hash(id, 21) % 100"),
    Column("h", "SMALLINT", ("0S", "7S", "-32768S", "32767S"), "hash(id, 22) % 10000"),
    Column("i", "INT", ("0", "-1", "7", "2147483647", "-2147483648"), "hash(id, 23)"),
    Column("l", "BIGINT", ("0L", "7L", "9223372036854775807L", "-9223372036854775807L - 1L"), "hash(id, 24)"),
    # What other languages take for numbers without a sign, and what no double has.
    Column(
        "w",
        "BIGINT",
        ("-1L", "2147483648L", "4294967295L", "4294967296L", "-2147483649L", "9007199254740993L"),
        "hash(id, 32) * 65537L",
    ),
    Column(
        "f",
        "FLOAT",
        ("float(0)", "float('-0.0')", "float('NaN')", "float('Infinity')", "float(0.1)", "float('1e-45')"),
        "hash(id, 25) / 3",
    ),
    Column(
        "d",
        "DOUBLE",
        ("0d", "-0.0d", "double('NaN')", "double('-Infinity')", "0.1d", "4.9e-324d", "1.7976931348623157e308d"),
        "hash(id, 26) / 7",
    ),
    Column("e", "DOUBLE", ("0.25d", "double('NaN')", "1e9d", "-0.5d"), "(hash(id, 27) % 1000) / 4"),
    Column(
        "t",
        "STRING",
        ("''", "'a'", "'A'", "'ab%'", "'ż'", "'\\uffff'", "'😀'", "'😀a'", "' a'", "'a '", "'\\u0000'", "'7'"),
        "concat(char(int(abs(hash(id, 28) % 300))), id)",
    ),
    Column("u", "STRING COLLATE UNICODE_CI", ("'a'", "'A'", "'ż'", "'Ż'", "'z'")),
    Column("b", "BOOLEAN", ("true", "false"), "id % 2 = 0"),
    Column(
        "dt",
        "DATE",
        ("DATE'1970-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1969-12-31'", "DATE'1582-10-15'"),
        "date_add(DATE'2000-01-01', hash(id, 29) % 1000)",
    ),
    Column(
        "at",
        "TIMESTAMP",
        (
            "TIMESTAMP'1970-01-01 00:00:00Z'",
            "TIMESTAMP'0001-01-01 00:00:00Z'",
            "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
            "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        ),
        "timestamp_micros(hash(id, 30) * 1003L)",
    ),
    Column(
        "n",
        "TIMESTAMP_NTZ",
        (
            "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
            "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
            "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        ),
    ),
    Column("p", "DECIMAL(10, 2)", ("0.00BD", "1.10BD", "-99999999.99BD", "99999999.99BD"), "id * 1.1BD"),
    Column(
        "q",
        "DECIMAL(38, 6)",
        (
            "0BD",
            "99999999999999999999999999999999.999999BD",
            "-99999999999999999999999999999999.999999BD",
            "0.000001BD",
        ),
        "id * 1000.5BD",
    ),
    Column(
        "z", "DECIMAL(38, 38)", (f"0.{'0' * 38}BD", f"0.{'9' * 38}BD", f"-0.{'9' * 38}BD", f"0.{'0' * 37}1BD", "0.1BD")
    ),
    # The first and the last that events can have.
    Column("da", "DATE", ("DATE'9999-12-31'", "DATE'0001-01-01'", "DATE'1582-10-04'")),
    Column(
        "ta",
        "TIMESTAMP",
        (
            "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
            "TIMESTAMP'0001-01-01 00:00:00Z'",
            "timestamp_micros(-1L)",
            "TIMESTAMP'1582-10-14 12:00:00Z'",
        ),
    ),
    Column(
        "tn",
        "TIMESTAMP_NTZ",
        (
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
            "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
            "TIMESTAMP_NTZ'1582-10-04 23:59:59'",
        ),
    ),
    Column("x", "BINARY", ("X''", "X'00'", "X'FF'", "X'0001'", "X'F09F9880'"), "CAST(concat('b', id) AS BINARY)"),
    Column("a", "ARRAY<INT>", (), "IF(id % 3 = 0, NULL, array(int(id), NULL, hash(id, 31)))"),
    Column(
        "s",
        "STRUCT<x: INT, y: STRING>",
        (),
        "IF(id % 4 = 0, NULL, named_struct('x', IF(id % 5 = 0, NULL, int(id % 7)), 'y', concat('y', id % 3)))",
    ),
    Column("m", "MAP<STRING, BIGINT>", (), "IF(id % 6 = 0, NULL, map(concat('k', id % 3), id, 'o', NULL))"),
)
_BY_NAME = {column.name: column for column in COLUMNS}


def columns(names: str) -> tuple[Column, ...]:
    """Some of them, by their names."""
    return tuple(_BY_NAME[name] for name in names.split())


def source(columns: tuple[Column, ...], rows: str) -> str:
    """A query that makes values for columns, of rows with an `id`."""
    return f"SELECT {', '.join(column.source(place) for place, column in enumerate(columns))} FROM {rows}"
