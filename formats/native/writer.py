"""Writes payloads by the native encoder, with the encoder in Python behind it.

The native encoder writes only batches that it is sure about. The others, refused or only unusual, are written by the
encoder in Python, whose bytes and errors count; `tests/formats/native/test_both_encoders.py` compares them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from pyspark_pravega import native

from .plans import Spec, Unplanned

_log = logging.getLogger(__name__)

NativeWriter = Callable[[pa.Array], "pa.LargeBinaryArray | None"]
"""Writes the payload of each value; None if the encoder in Python is to do it."""


def json_writer(plan: Callable[[], Spec], header: bytes) -> NativeWriter | None:
    """Return what writes JSON documents, `header` before each; None without a native encoder for the schema.

    `plan` may raise Unplanned.
    """
    module = native.module()
    if module is None:
        return None
    try:
        encoder = module.JsonEncoder(plan(), header)
    except (Unplanned, ValueError) as reason:
        _log.info("JSON is encoded in Python: %s", reason)
        return None

    def write(values: pa.Array) -> pa.LargeBinaryArray | None:
        written = encoder.encode(values)
        return None if written is None else pa.array(written)

    return write
