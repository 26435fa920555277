"""The JSON format: one UTF-8 document per event, an object whose properties are the columns.

What it accepts, in every reader of this project:

* exactly one document, with JSON white space around it; a byte order mark before it is skipped;
* RFC 8259 to the letter: no NaN, no comments, no control characters in strings, no trailing comma;
* a property that occurs twice has its last value; properties without a column are ignored;
* null is null, and so is a missing property, unless its column has a default;
* nesting up to 512 levels, whether or not the nested part is read;
* trailing NULs after a registry header, which serializers leave there.

`values` says what each column accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.arrow_types import replace_char_types
from ..core.batches import PayloadReader, UniformDecoder, read_each
from ..core.columns import Problems, describe_kind
from ..core.edited_columns import EditedColumn
from ..core.events import EventBuffer
from ..core.format import NO_SETTINGS, Decoder, Encoder, Layout, Resolve, Settings
from ..core.spark_types import ROOT_COLUMN
from ..native import choose_reader
from .documents import DEEPEST, DocumentParser
from .edited_schema import edit_json, write_json_defaults
from .schemas import schema_model as model
from .schemas.schema_parser import parse_json_schema
from .schemas.schema_references import make_portable
from .schemas.schema_to_spark import convert_json_schema_to_spark
from .schemas.spark_to_schema import convert_spark_to_json_schema
from .timestamps import ISO, read_timestamp_format
from .values import has_number_text, make_struct_column, plan_column
from .writing import JsonEncoder


class JsonFormat:
    """The format of events that are JSON documents, with or without a schema in the registry."""

    name = "json"
    registry_format = "Json"
    changes = False
    any_keys = False
    """Whether maps may have keys that are not strings."""

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        return make_portable(
            convert_spark_to_json_schema(
                layout.columns,
                comment,
                name,
                epoch_timestamps=read_timestamp_format(layout.settings) != ISO,
                defaults=write_json_defaults(layout.columns, layout.settings),
                any_keys=self.any_keys,
            )
        )

    def spark_schema(self, schema_text: str) -> StructType:
        return convert_json_schema_to_spark(schema_text)

    def unread(self, schema_text: str) -> Sequence[str]:
        return parse_json_schema(schema_text).unread

    def edited_text(
        self, schema_text: str, columns: Sequence[EditedColumn], revision: int | None, settings: Settings = NO_SETTINGS
    ) -> str:
        return edit_json(schema_text, columns, revision, settings)

    def former_names(self, schema_text: str) -> Mapping[tuple[str, ...], Sequence[str]]:
        """Return no names: a property has only one name."""
        return {}

    def type_name(self, schema_text: str) -> str:
        """Return the "title", else the last part of the "$id" or "id", else `object`."""
        try:
            root = json.loads(schema_text)
        except ValueError as error:
            raise InvalidSchemaError(f"the JSON schema is not JSON: {error}") from None
        if isinstance(root, dict):
            title = root.get("title")
            if isinstance(title, str) and title:
                return title
            for key in ("$id", "id"):
                name = re.split(r"[:/#]", root[key].rstrip("/#"))[-1] if isinstance(root.get(key), str) else ""
                if name:
                    return name
        return "object"

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        reference = _JsonReader(layout)
        reader = choose_reader(reference, reference.make_native, "JSON")
        return UniformDecoder(self.registry_format, layout.columns, resolve, reader)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        return JsonEncoder(layout, encoding_id, codec)


class _JsonReader(PayloadReader):
    def __init__(self, layout: Layout) -> None:
        root = parse_json_schema(layout.schema_text).root if layout.schema_text else None
        timestamps = read_timestamp_format(layout.settings)
        struct = replace_char_types(layout.columns)
        # A root that is not an object is the only column, as if each document were its value in an object.
        self._wrapped = root is not None and not isinstance(root, model.Object)
        self._name = struct.names[0] if struct.names else ROOT_COLUMN
        node = model.Object({self._name: root}) if self._wrapped and root is not None else root
        self._columns = make_struct_column(struct, "", node, timestamps)
        self._parser = DocumentParser(has_number_text(struct, node, timestamps), "it is empty", signed_zeros=True)

    def make_native(self, module: Any) -> Any:
        """Return the native decoder of the same columns. Raises Unplanned if it cannot do it."""
        return module.Decoder.json(plan_column(self._columns, False), self._wrapped, [])

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        if padded:
            payloads = payloads.strip_nuls()
        documents = self._documents(payloads, problems)
        if self._wrapped:
            documents = [{self._name: document} for document in documents]
        elif set(map(type, documents)) != {dict}:
            for row, document in enumerate(documents):
                if type(document) is not dict:
                    problems.add(row, f"it should be a JSON object but is {describe_kind(document)}")
                    documents[row] = {}
        return self._columns.children(documents, np.arange(len(documents)), problems)

    def _documents(self, payloads: EventBuffer, problems: Problems) -> list[Any]:
        """Return the parsed payloads, None for a bad one."""
        compact = EventBuffer.of_arrow(payloads.to_arrow())
        if int(compact.lengths.max(initial=0)) <= DEEPEST:
            # Too short to be nested too deeply. If everything is ASCII, bytes and characters have the same places, and
            # the parser can run over the whole text: a document is valid only if it ends where its event ends, and
            # then the parser has not read beyond the event.
            parsed = self._scan_all(compact)
            if parsed is not None:
                return parsed
        return read_each(compact, lambda payload: self._parser.document(self._parser.text(payload)), problems)

    def _scan_all(self, payloads: EventBuffer) -> list[Any] | None:
        """Return the parsed payloads, or None if any of them is bad or unusual."""
        if not len(payloads):
            return []
        begin, end = int(payloads.starts[0]), int(payloads.starts[-1] + payloads.lengths[-1])
        try:
            text = str(memoryview(payloads.data)[begin:end], "ascii")
            scan = self._parser.choose_scan(text, bare=self._wrapped)
            scanned = [scan(text, start) for start in (payloads.starts - begin).tolist()]
        except (StopIteration, ValueError, RecursionError):
            return None
        documents, ends = zip(*scanned, strict=True)
        if list(ends) != (payloads.starts + payloads.lengths - begin).tolist():
            return None
        return list(documents)
