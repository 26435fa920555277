"""The tables that the behaviours ask; none of them changes one of these."""

from __future__ import annotations

STATEMENTS = (
    "CREATE TABLE readings (id INT NOT NULL COMMENT 'its number', sensor STRING, temp DOUBLE, at TIMESTAMP, "
    "tags ARRAY<STRING>, place STRUCT<hall: INT, row: STRING>) USING pravega COMMENT 'of all halls' "
    "TBLPROPERTIES ('routing-key'='sensor', 'scaling.min-segments'='2')",
    "INSERT INTO readings VALUES "
    "(1, 'a', 20.5, TIMESTAMP'2026-01-01 10:00:00', array('x', 'y'), named_struct('hall', 1, 'row', 'r1')), "
    "(2, 'b', 21.5, TIMESTAMP'2026-01-01 11:00:00', array(), named_struct('hall', 1, 'row', 'r2'))",
    "INSERT INTO readings VALUES (3, 'a', 19.0, TIMESTAMP'2026-01-02 10:00:00', NULL, NULL), "
    "(4, 'c', NULL, TIMESTAMP'2026-01-02 12:30:00', array('z'), named_struct('hall', 2, 'row', NULL))",
    "INSERT INTO readings VALUES (5, 'b', -3.25, NULL, array('x'), named_struct('hall', 2, 'row', 'r9')), "
    "(6, 'größe \"q\"', 0.0, TIMESTAMP'2026-01-03 00:00:00.123456', array('y', 'x'), NULL)",
    "CREATE TABLE orders (id BIGINT, total DECIMAL(10,2), day DATE, who STRING DEFAULT 'nobody', paid BOOLEAN) "
    "USING pravega TBLPROPERTIES ('format'='json', 'routing-key'='id')",
    "INSERT INTO orders VALUES (10, 5.50, DATE'2026-01-01', 'ann', true), (11, 0.05, DATE'2026-01-02', 'bob', false), "
    "(12, NULL, NULL, NULL, NULL), (13, 99999999.99, DATE'2026-01-02', 'ann', true)",
    "CREATE TABLE lines (id INT, name STRING, price DECIMAL(8,2)) USING pravega "
    "TBLPROPERTIES ('format'='csv', 'csv.delimiter'=';')",
    "INSERT INTO lines VALUES (1, 'a;b', 1.50), (2, 'say \"hi\"', NULL), (3, NULL, -0.01)",
    "CREATE TABLE words (value STRING) USING pravega TBLPROPERTIES ('format'='text')",
    "INSERT INTO words VALUES ('one'), ('zwölf'), ('')",
    "CREATE TABLE bytes (event BINARY) USING pravega TBLPROPERTIES ('format'='raw')",
    "INSERT INTO bytes VALUES (X'00FF'), (X'')",
    "CREATE TABLE customers (id INT, name STRING) USING pravega "
    "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')",
    "INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')",
    "CREATE TABLE empty (id INT, name STRING) USING pravega",
)
"""Statements of which each succeeds, in the namespace of the behaviours."""

NAMES = ("readings", "orders", "lines", "words", "bytes", "customers", "empty")
