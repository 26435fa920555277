"""Decoding the same events natively and by the reference decoder, and comparing what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega import native
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import NO_SETTINGS, BadEvent, Decoder, Layout, Resolve, Settings, find_format

needs_native = pytest.mark.skipif(
    not native.get_status().active, reason=f"there is no native decoder to compare with: {native.get_status().text}"
)


@contextmanager
def reference_only() -> Iterator[None]:
    """Decoders made inside are the reference's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.SWITCH, "0")
        yield


class BothPaths:
    """A decoder of each kind for the same table."""

    def __init__(
        self,
        format_name: str,
        schema: StructType,
        text: str | None = None,
        resolve: Resolve | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self._make: Callable[[], Decoder] = lambda: find_format(format_name).decoder(
            Layout(schema, text, settings), resolve
        )
        self.native = self._make()
        with reference_only():
            self.reference = self._make()

    def check(self, events: EventBuffer, *, masked: bool = True) -> tuple[pa.RecordBatch, list[BadEvent]]:
        """What both find, which must be the same rows and the same bad events with the same reasons.

        `masked`: the fields of structs that are null, which nobody sees, must be the same too.
        """
        found, bad = self.native.decode_valid(events)
        with reference_only():  # readers are made when the first event of a schema comes
            wanted, bad_wanted = self.reference.decode_valid(events)
        assert [(event.index, event.reason) for event in bad] == [(event.index, event.reason) for event in bad_wanted]
        found.validate(full=True)
        assert found.schema.equals(wanted.schema, check_metadata=True)
        assert found.num_rows == wanted.num_rows
        for one, other in zip(found.columns, wanted.columns, strict=True):
            # The text tells -0.0 from 0.0, takes NaN for NaN and shows dates that Python does not have.
            assert text_of(one) == text_of(other) or not masked
            # It leaves out lists of lists in the middle, so that it may not show a NaN.
            assert one.equals(other) or "nan" in str(one.to_pylist())
        return found, bad


def text_of(array: pa.Array) -> str:
    """All values of an array."""
    text: str = array.to_string(window=len(array) + 1, container_window=1 << 20, skip_new_lines=True)
    return text
