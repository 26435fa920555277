"""The events of a task come back as they were added, and only what exceeds its memory is in the file."""

from __future__ import annotations

import hashlib
import random

import pytest

from pyspark_pravega.datasource.insert.spool import BLOCK_BYTES, Spool

MEMORY = 8 * BLOCK_BYTES


@pytest.mark.parametrize("total", [MEMORY // 2, 3 * MEMORY])
def test_content_and_file(total: int) -> None:
    chance = random.Random(total)
    given: dict[int, list[bytes]] = {}
    events = {1: 0, 2: 0, 3: 0}
    with Spool(MEMORY) as spool:
        size = 0
        while size < total:
            for segment in chance.sample(sorted(events), 2):
                data = chance.randbytes(chance.choice((1, 1000, 300_000)))
                spool.room(segment, len(data), 3)[:] = data
                given.setdefault(segment, []).append(data)
                events[segment] += 3
                size += len(data)
            spool.take_filled()
        file = 0 if spool._file is None else spool._file.seek(0, 2)
        # Blocks are not quite full, and a part of the memory is made free at a time.
        assert (file > size - MEMORY) if total > MEMORY else (file == 0)
        assert file <= max(0, size - MEMORY // 4)
        for segment in spool.segments():
            content = b"".join(given[segment])
            blocks = list(spool.blocks(segment))
            assert b"".join(data for data, _ in blocks) == content
            assert (
                spool.size(segment)
                == (len(content), sum(count for _, count in blocks))
                == (
                    len(content),
                    events[segment],
                )
            )
            assert spool.digest(segment) == hashlib.sha256(content).digest()
