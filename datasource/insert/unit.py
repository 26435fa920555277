"""The unit of writing, for errors: what is not visible after a failure, and how to go on."""

from __future__ import annotations

from enum import Enum


class Unit(Enum):
    """What one transaction holds."""

    INSERT = "INSERT"
    MICRO_BATCH = "micro-batch"

    @property
    def nothing_visible(self) -> str:
        """Say that all of it is gone."""
        return f"Nothing of this {self.value} is visible"

    @property
    def next_step(self) -> str:
        """Say how its rows are written after all."""
        if self is Unit.INSERT:
            return "run it again"
        return "start the query again, and it goes on from its checkpoint"

    @property
    def write_again(self) -> str:
        """Say both."""
        return f"{self.nothing_visible}; {self.next_step}"


__all__ = ["Unit"]
