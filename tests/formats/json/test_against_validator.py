"""Tables by generated schemas agree with a validator of JSON Schema: in what is read, written and refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, MapType, StringType, StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.json.writing import JsonEncoder
from tests.formats.both_paths import reference_only
from tests.formats.fuzzing import COUNT
from tests.formats.json.composed_schemas import Schema, documents, is_valid, schemas

pytestmark = pytest.mark.slow

JSON = find_format("json")
EXAMPLES = max(40, COUNT // 125)
"""`make fuzz` takes more."""

generated = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None
)


def columns_of(schema: Schema) -> StructType:
    """The columns of a schema; those that no value fits, or which are parts of themselves, are left out."""
    try:
        return JSON.spark_schema(json.dumps(schema))
    except InvalidSchemaError as error:
        assert "allows no value" in error.message or "is a part of itself" in error.message
        assume(False)
        raise


def shows(data_type: DataType, found: Any, value: Any) -> bool:
    """Tell whether a column has the value of a document."""
    if value is None or found is None:
        return found is value
    if isinstance(data_type, StructType):
        return all(shows(field.dataType, found[field.name], value.get(field.name)) for field in data_type)
    if isinstance(data_type, ArrayType):
        pairs = zip(found, value, strict=True)
        return all(shows(data_type.elementType, item, wanted) for item, wanted in pairs)
    if isinstance(data_type, MapType):
        there = dict(found)
        return there.keys() == value.keys() and all(
            shows(data_type.valueType, there[key], item) for key, item in value.items()
        )
    if isinstance(data_type, StringType):
        return bool(found == value) if isinstance(value, str) else json.loads(found) == value
    return bool(found == value and isinstance(value, bool) == isinstance(found, bool))


@generated
@given(schema=schemas(), data=st.data())
def test_what_is_valid_is_read(schema: Schema, data: st.DataObject) -> None:
    columns = columns_of(schema)
    document = data.draw(documents(schema))
    assume(is_valid(schema, document))
    text = json.dumps(schema)
    event = EventBuffer.of([json.dumps(document).encode()])
    [row] = JSON.decoder(Layout(columns, text)).decode(event).to_pylist()
    if columns.names == ["value"] and "value" not in schema.get("properties", {}):
        document = {"value": document}
    assert shows(columns, row, document)
    with reference_only():
        assert JSON.decoder(Layout(columns, text)).decode(event).to_pylist() == [row]


def rows_of(data_type: DataType) -> st.SearchStrategy[Any]:
    """Values of a column, null among them, as the schemas' keywords may like them."""
    found: st.SearchStrategy[Any]
    if isinstance(data_type, StructType):
        found = st.fixed_dictionaries({field.name: rows_of(field.dataType) for field in data_type})
    elif isinstance(data_type, ArrayType):
        found = st.lists(rows_of(data_type.elementType), max_size=2)
    elif isinstance(data_type, MapType):
        found = st.dictionaries(st.sampled_from("abk"), rows_of(data_type.valueType), max_size=2).map(
            lambda pairs_of: list(pairs_of.items())
        )
    elif isinstance(data_type, LongType):
        found = st.sampled_from([0, 2, 7, -6])
    elif isinstance(data_type, DoubleType):
        found = st.sampled_from([0.5, 3.0, 100.0, float("nan"), float("-inf")])
    elif isinstance(data_type, StringType):
        texts = ["a", "bb", "xyz", "1", "1.5", "null", '{"a": 1}', '{"b":{}, "c":"a"}', "[]", "[1,2]", "{"]
        found = st.sampled_from(texts)
    else:
        found = st.booleans()
    return st.none() | found


@generated
@given(schema=schemas(), data=st.data())
def test_what_is_written_is_valid_and_nothing_else_is_refused(schema: Schema, data: st.DataObject) -> None:
    columns = columns_of(schema)
    text = json.dumps(schema)
    row = data.draw(st.fixed_dictionaries({column.name: rows_of(column.dataType) for column in columns}))
    batch = pa.RecordBatch.from_pylist([row], schema=arrow_schema(columns))
    encoder = JSON.encoder(Layout(columns, text))
    assert isinstance(encoder, JsonEncoder)
    try:
        [document] = encoder.encode(batch).to_pylist()
    except InvalidRowError as error:
        assert "row 0 of the batch cannot be written: " in error.message
        encoder._rules = None
        try:
            [document] = encoder.encode(batch).to_pylist()
        except InvalidRowError:
            return  # a null, a number or a text that no document can have there
        assert not is_valid(schema, json.loads(document))
        return
    assert is_valid(schema, json.loads(document))
    with reference_only():
        assert JSON.encoder(Layout(columns, text)).encode(batch).to_pylist() == [document]
    decoded = JSON.decoder(Layout(columns, text)).decode(EventBuffer.of([document]))
    assert JSON.encoder(Layout(columns, text)).encode(decoded).to_pylist() == [document]
