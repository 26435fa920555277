"""Files of current rows in blocks by the hash of their keys, so that a task reads some keys without the others.

A file consists of pieces: a head, which is the schema of an Arrow stream, and blocks, which are batches of entries in
the order of their keys' slots. After them comes an index: the end of each piece, the slots of its first and last key,
and its checksum. The checksum of the index and the number of pieces follow. RowFiles.java fetches pieces by it.

The next file takes over the blocks, without the keys that have changed, and has other blocks for these. When it would
have too many, its entries are `scattered`, and all of them are sorted into new blocks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.routing import MAX_KEY, hash_keys
from pyspark_pravega.formats.core.arrow_types import make_array

from .rows.fold import join_key
from .rows.row_history import RowState
from .states import StateWriter, read_head

_INDEX = np.dtype([("end", "<i8"), ("first", "<i4"), ("last", "<i4"), ("checksum", "<u4")])
_CHECKSUM_BYTES, _COUNT_BYTES = 4, 8
_BLOCK_BYTES = 1 << 20
_SPARE_BLOCKS = 16
"""How many blocks more than twice the fewest possible a file may have."""
_SLOTS = 1 << 16
"""Equal parts of the hashes. NumPy sorts numbers of 16 bits in linear time."""

Slots = npt.NDArray[np.uint16]


def find_slots(entries: pa.Table, key: Sequence[str]) -> Slots:
    """Return the slot of the key of each entry."""
    texts = join_key(entries, key)
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > MAX_KEY // 4:  # longer ones may not be hashed
        texts = pc.utf8_slice_codeunits(texts, 0, MAX_KEY // 4)  # which leaves shorter ones as they are
    return (hash_keys(texts) * _SLOTS).astype(np.uint16)


class BlockWriter(StateWriter):
    """A file that takes a state of rows with this `key` part by part, and makes blocks of each part."""

    def __init__(self, file: pa.NativeFile, key: Sequence[str]) -> None:
        super().__init__(file)
        self._key = key
        self._schema: pa.Schema | None = None
        self._index: list[tuple[int, int, int, int]] = []

    def _write(self, entries: pa.Table) -> None:
        if self._schema is None:
            self._schema = entries.schema
            self._append(self._describe(entries.schema), 0, _SLOTS)
        if not len(entries):
            return
        slots, entries = find_slots(entries, self._key), entries.cast(self._schema).combine_chunks()
        if (slots[1:] < slots[:-1]).any():
            order = np.argsort(slots, kind="stable")
            slots, entries = slots[order], entries.take(make_array(order))
        rows = max(1, len(entries) * _BLOCK_BYTES // max(1, entries.nbytes))
        for begin in range(0, len(entries), rows):
            [block] = entries.slice(begin, rows).to_batches()
            self._append(block, int(slots[begin]), int(slots[begin + len(block) - 1]))

    def _append(self, piece: pa.Schema | pa.RecordBatch, first: int, last: int) -> None:
        content = piece.serialize()
        self._file.write(content)
        self._index.append((self._file.tell(), first, last, zlib.crc32(content)))

    def close(self) -> None:
        """Write the end. A state of no rows has a head, too."""
        if self._schema is None:
            self._write(pa.table({}))
        index = np.array(self._index, _INDEX).tobytes()
        for number, size in ((zlib.crc32(index), _CHECKSUM_BYTES), (len(self._index), _COUNT_BYTES)):
            index += number.to_bytes(size, "little")
        self._file.write(index)


@contextmanager
def read_blocks(path: Path, slots: Sequence[int] | None) -> Iterator[RowState]:
    """Open a state, with the blocks of some slots, or all.

    Raises FileNotFoundError, and ValueError if what is read is not as it was written.
    """
    with pa.memory_map(str(path)) as mapped:
        content = mapped.read_buffer()
        index = _read_index(content)
        wanted = np.ones(len(index), np.bool_)
        if slots is not None:
            asked = np.sort(np.array(slots, np.int32))
            wanted = np.searchsorted(asked, index["first"]) < np.searchsorted(asked, index["last"], "right")
            wanted[0] = True
        begins = np.append(0, index["end"][:-1])
        pieces = []
        for begin, (end, _, _, checksum) in zip(begins[wanted].tolist(), index[wanted].tolist(), strict=True):
            pieces.append(_check(content.slice(begin, end - begin), checksum))
        schema = pa.ipc.read_schema(pieces[0])
        batches = (pa.ipc.read_record_batch(piece, schema) for piece in pieces[1:])
        entries = (pa.Table.from_batches([batch]) for batch in batches)
        scattered = len(index) > 2 * (len(content) // _BLOCK_BYTES) + _SPARE_BLOCKS
        yield read_head(json.loads(schema.metadata[b"head"]), [entries], scattered=scattered)


def _read_index(content: pa.Buffer) -> npt.NDArray[np.void]:
    end = len(content) - _COUNT_BYTES - _CHECKSUM_BYTES
    checksum, count = (int.from_bytes(part, "little") for part in (content[end:-_COUNT_BYTES], content[-_COUNT_BYTES:]))
    size = count * _INDEX.itemsize
    if not 0 < size <= end:
        raise ValueError("it has no index")
    return np.frombuffer(_check(content.slice(end - size, size), checksum), _INDEX)


def _check(content: pa.Buffer, checksum: int) -> pa.Buffer:
    if zlib.crc32(content) != checksum:
        raise ValueError("its checksum is not that of its content")
    return content
