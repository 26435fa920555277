"""What a transaction holds to the user, and how its errors speak of that."""

from __future__ import annotations

from enum import Enum


class Unit(Enum):
    """The unit of work that one transaction holds."""

    INSERT = "INSERT"
    MICRO_BATCH = "micro-batch"
    PART_OF_INSERT = "INSERT in this stream"
    PART_OF_MICRO_BATCH = "micro-batch in this stream"

    @property
    def nothing_visible(self) -> str:
        """Return the sentence that says that no row of it is visible."""
        return f"No row of this {self.value} is visible"

    @property
    def next_step(self) -> str:
        """Return how to write its rows after all."""
        if self is Unit.INSERT:
            return "run it again"
        if self is Unit.PART_OF_INSERT:
            return "write the rows for this stream again"
        return "start the query again, and it continues from its checkpoint"

    @property
    def write_again(self) -> str:
        """Return both."""
        return f"{self.nothing_visible}; {self.next_step}"
