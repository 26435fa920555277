"""Recognizes Debezium's placeholder for a value that was not sent, in all the forms that its connectors write.

The forms are those of Debezium's own code: `UnchangedToastedPlaceholder` and `PostgresValueConverter` for PostgreSQL,
`BinlogValueConverters` and `OracleValueConverters` for large objects of MySQL, MariaDB and Oracle.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidOptionError

from ..avro.cells import write_varint
from ..core.arrow_types import replace_char_types
from ..core.events import EventBuffer, EventPositions, find_events, find_texts
from .feed import UNAVAILABLE_VALUE, encode_utf8

_HEX = "hex:"


@dataclass(frozen=True)
class Placeholder:
    """The placeholder of one table: its bytes, and the text that Java makes of them.

    `setting` is the connector's setting, which only PostgreSQL's and MySQL's connectors decode.
    """

    raw: bytes
    text: str
    setting: str

    @classmethod
    def of(cls, setting: str) -> Placeholder:
        """Read the connector's `unavailable.value.placeholder`: a text, or bytes as `hex:...`.

        Raises InvalidOptionError for what follows `hex:` and is no hexadecimal number of whole bytes.
        """
        if not setting.startswith(_HEX):
            return cls(encode_utf8(setting), setting, setting)
        try:
            raw = bytes.fromhex(setting.removeprefix(_HEX))
        except ValueError:
            raw = b""
        if not raw:
            raise InvalidOptionError(
                f"'{UNAVAILABLE_VALUE}'='{setting}': after '{_HEX}' two hexadecimal digits are expected for each byte, "
                "as in the connector's 'unavailable.value.placeholder'. Copy that setting."
            )
        return cls(raw, raw.decode(errors="replace"), setting)

    @property
    def octets(self) -> list[int]:
        """Return the elements in arrays of numbers and dates: Java's bytes have a sign."""
        return [octet - 256 if octet > 127 else octet for octet in self.raw]

    @property
    def uuid(self) -> str:
        """Return the element in arrays of UUIDs, by the rule of Java's `UUID.nameUUIDFromBytes`."""
        return str(uuid.UUID(bytes=hashlib.md5(self.raw, usedforsecurity=False).digest(), version=3))

    @property
    def object_text(self) -> str:
        """Return an hstore in the mode `json`, as Jackson writes it."""
        return json.dumps({self.text: self.text}, ensure_ascii=False, separators=(",", ":"))

    @property
    def coded(self) -> list[str]:
        """Return the bytes in the modes of binary columns that make texts of them."""
        raw = self.raw
        texts = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()}
        return sorted(texts)

    @property
    def forms(self) -> list[Any]:
        """Return all forms of a parsed value that was not sent."""
        text = self.text
        # Bytes in an array are base64 in JSON. The last array is that of BINARY in Avro's arrays of numbers.
        # Exact digits of numbers are bytes until their type is known.
        floats = [f"{octet}.0".encode() for octet in self.octets]
        arrays = [[text], self.octets, floats, [self.uuid], [self.raw], *([one] for one in self.coded), list(self.raw)]
        return [text, self.setting, *self.coded, self.raw, self.object_text, *arrays, {text: text}, [(text, text)]]

    def list_forms(self, columns: T.StructType) -> dict[str, list[Any]]:
        """Return the forms by column, for columns that can have one."""
        strings, forms = replace_char_types(columns), self.forms
        return {field.name: forms for field in strings.fields if isinstance(field.dataType, _LARGE)}


_LARGE = (T.ArrayType, T.MapType, T.StringType, T.BinaryType, T.DecimalType, T.StructType, T.VariantType)
"""Types of columns whose values a database may keep apart. Texts and VARIANTs may have any form."""


class PlaceholderSearch:
    """Finds the events that may contain the placeholder, by their bytes alone: those with one of the `texts`."""

    def __init__(self, placeholder: Placeholder, *, avro: bool, others: Sequence[bytes] = ()) -> None:
        """Look for `others` too: texts of events that only the reference can judge."""
        raw = placeholder.raw
        # JSON may write it with escapes, and base64 too: its padding.
        self._is_plain = avro or re.fullmatch(rb"[\w:;.,!?#*-]+", raw) is not None
        coded = [text.rstrip("=").encode() for text in (*placeholder.coded, placeholder.uuid)]
        texts = [raw, encode_utf8(placeholder.text), encode_utf8(placeholder.setting), *coded, *others]
        self._octets: re.Pattern[bytes] | None = None
        if avro:
            texts.append(encode_utf8(placeholder.object_text))
            # The items may be a union with null, with the branch before each item.
            texts += [branch.join(map(write_varint, placeholder.octets)) for branch in (b"", b"\0", b"\2")]
        else:
            # An array of numbers may have blanks. With its bracket, which is rare, it is found three times as fast.
            numbers = [str(octet).encode() for octet in placeholder.octets]
            self._octets = re.compile(rb"\[\s*" + rb"(?:\.0)?\s*,\s*".join(numbers))
        self.texts: Sequence[bytes] = list(dict.fromkeys(texts)) if self._is_plain else []

    def find_others(self, events: EventBuffer) -> EventPositions:
        """Return the positions of events that may contain it without one of the texts."""
        if not self._is_plain:
            return np.arange(len(events))
        return np.zeros(0, np.int64) if self._octets is None else find_events(events, self._octets.pattern)

    def suspects(self, events: EventBuffer) -> Iterable[int]:
        """Return the positions of all events that may contain it."""
        return list(np.unique(np.concatenate([find_texts(events, self.texts), self.find_others(events)])))
