"""Properties of key-value tables."""

from __future__ import annotations

from ..option_types import TEXT, Option, SettableAs, one_of, optional, whole_number

KEY_VALUE_FORMAT = "kvtable"
"""What `format` says of a table that is a key-value table, and no stream."""

SECONDARY_KEY = Option(
    "secondary-key",
    optional(TEXT),
    None,
    SettableAs.PROPERTY,
    "Columns of the secondary key, written as those of `primary-key`: `day`, or `city(32)` with the bytes of a string. "
    "Entries with equal primary keys are in one partition, whatever their secondary keys are.",
    formats=(KEY_VALUE_FORMAT,),
)
VALUE_FORMAT = Option(
    "value-format",
    one_of("json", "avro", "raw"),
    "json",
    SettableAs.PROPERTY,
    "How the columns that are no key stand in the values: as a JSON or Avro document of the table's schema, or `raw`: "
    "the bytes of the one column that there is.",
    "json",
    formats=(KEY_VALUE_FORMAT,),
)
PARTITIONS = Option(
    "partitions",
    whole_number(1, 1_000),
    4,
    SettableAs.PROPERTY,
    "Number of partitions, which are read and written at the same time. It cannot be changed later.",
    "4",
    formats=(KEY_VALUE_FORMAT,),
)
