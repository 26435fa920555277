"""Payloads that are no event of a table with the columns k INT NOT NULL, v BIGINT; by what is wrong with them."""

from __future__ import annotations

import gzip
import json

AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [{"name": "k", "type": "int"}, {"name": "v", "type": ["null", "long"], "default": None}],
    }
)

BAD_JSON: dict[str, tuple[bytes, str]] = {
    "truncated": (b'{"k":1,"v":', "not a JSON document"),
    "two documents": (b'{"k":1}{"k":2}', "something follows"),
    "two lines": (b'{"k":1}\n{"k":2}\n', "something follows"),
    "trailing bytes": (b'{"k":1}xx', "something follows"),
    "trailing NUL": (b'{"k":1}\0', "something follows"),
    "bad UTF-8": (b'{"k":1,"s":"\xff"}', "not UTF-8"),
    "UTF-16": ('{"k":1}'.encode("utf-16"), "not UTF-8"),
    "200 k nesting": (b'{"k":1,"s":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested more than 512 levels deep"),
    "unclosed nesting": (b'{"k":1,"s":' + b"[" * 200_000, "nested more than 512 levels deep"),
    "NaN": (b'{"k":1,"v":NaN}', "NaN is not JSON"),
    "Infinity": (b'{"k":1,"v":-Infinity}', "-Infinity is not JSON"),
    "huge number": (b'{"k":1,"v":1' + b"0" * 100 + b"}", "out of the range of bigint"),
    "thousands of digits": (b'{"k":1,"v":' + b"9" * 5000 + b"}", "not a JSON document"),
    "no object": (b"[1,2]", "should be a JSON object"),
    "null in NOT NULL": (b'{"k":null,"v":1}', "NOT NULL"),
    "wrong type": (b'{"k":"1"}', "expected an integer"),
    "bytes of Avro": (b"\x01\x00\x00\x00\x00\x02\x02\x02", "not a JSON document"),
}
GOOD_JSON: dict[str, bytes] = {
    "pretty-printed": b'{\n  "k": 7,\n  "v": 70\n}\n',
    "byte order mark": b'\xef\xbb\xbf{"k":7,"v":70}',
    "duplicate keys": b'{"k":1,"v":1,"k":7,"v":70}',
    "lone surrogate in what is not read": b'{"k":7,"v":70,"s":"\\ud800"}',
    "extra fields": b'{"x":{"y":[1]},"k":7,"v":70}',
}

HEADER = b"\x01\x00\x00\x00\x00"
BAD_AVRO: dict[str, tuple[bytes, str]] = {
    "shorter than a header": (b"\x01\x00\x00", "fewer than the 5"),
    "no header": (b'{"k":1}', "its first byte is 0x7b"),
    "negative encoding id": (b"\x01\xff\xff\xff\xff\x02\x00", "is negative"),
    "unknown encoding id": (b"\x01\x00\x00\x03\xe7\x02\x00", "encoding id 999 is not in the schema registry"),
    "header alone": (HEADER, "it is empty"),
    "truncated": (HEADER + b"\x02\x02", "cut off"),
    "trailing byte": (HEADER + b"\x02\x00\x01", "1 bytes more"),
    "trailing bytes behind NULs": (HEADER + b"\x02\x00" + bytes(99) + b"\x01", "100 bytes more"),
    "hostile branch": (HEADER + b"\x02\x7f", "branch number"),
    "overlong number": (HEADER + b"\xff" * 10 + b"\x01", "more than 64 bits"),
    "compressed without saying so": (HEADER + gzip.compress(b"\x02\x00"), "branch number"),
}
