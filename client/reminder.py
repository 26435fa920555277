"""Asks the controller again for what it has accepted and does not get done.

The controller writes an event to a stream of its own for what takes long, and may lose it: a transaction then stays
COMMITTING for ever, and whoever waits for it waits for ever. The same request, sent again, makes the controller write
the event again (`sealTxnBody` in StreamTransactionMetadataTasks.java, `addIndexAndSubmitTask` in EventHelper.java).
docs/design/controller.md says for each wait what asks again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pyspark_pravega.errors import PermissionDeniedError, PravegaError

_log = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
"""Seconds after which something is asked for again: far more than it takes, and few enough for whoever waits."""

LONGEST_SECONDS = 60.0
"""The longest pause between two requests; each is twice as long as the one before."""


class Reminder:
    """Asks again for one thing, at growing pauses. Each time the log says so.

    `pause`: seconds from the last request to the next one. `asked`: how often it was asked for again.
    """

    def __init__(self, what: str) -> None:
        """`what` completes "asking the controller again to ..."."""
        self._what = what
        self._began = self._asked_at = time.monotonic()
        self._refusal: PermissionDeniedError | None = None
        self.pause = FIRST_SECONDS
        self.asked = 0

    @property
    def seconds(self) -> float:
        """Return how long it has been waited for."""
        return time.monotonic() - self._began

    def note_asked(self) -> None:
        """Note in the log that it is asked for again, and double the pause."""
        _log.warning("After %.0f s: asking the controller again to %s.", self.seconds, self._what)
        self._asked_at, self.asked = time.monotonic(), self.asked + 1
        self.pause = min(2 * self.pause, LONGEST_SECONDS)

    def ask_if_due(self, ask: Callable[[], object]) -> None:
        """Call `ask` if the pause is over. The wait goes on if that fails, and asks no more without the right to."""
        if self._refusal is not None or time.monotonic() - self._asked_at < self.pause:
            return
        self.note_asked()
        try:
            ask()
        except PermissionDeniedError as error:
            self._refusal = error
            _log.warning("Waiting without asking: %s", error)
        except PravegaError as error:  # the next look at its state tells what has become of it
            _log.warning("Asking again failed: %s", error)

    def explain(self) -> str:
        """Say for an error message what asking again has come to."""
        if self._refusal is not None:
            return f"this user may not ask for it again ({self._refusal.message})"
        times = "once" if self.asked == 1 else f"{self.asked} times"
        return f"it was asked for again {times}" if self.asked else "it was not asked for again yet"
