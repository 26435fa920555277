"""The signals that stop a script: noted when they come, and looked at between two steps."""

from __future__ import annotations

import signal
from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Notes the first SIGINT or SIGTERM. The second one ends the process at once."""

    def __init__(self) -> None:
        self._came: signal.Signals | None = None
        for number in _STOPPING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came = signal.Signals(number)
        for each in _STOPPING:
            signal.signal(each, signal.SIG_DFL)

    def came(self) -> bool:
        """Tell whether a signal came."""
        return self._came is not None

    def name(self) -> str:
        """Return the signal's name."""
        return self._came.name if self._came else ""

    def exit_code(self) -> int:
        """Return the exit code that shells give to a program that a signal ends."""
        return 128 + (self._came or 0)
