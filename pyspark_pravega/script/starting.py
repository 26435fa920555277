"""Starting a script's session while the main thread listens to signals."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from .signals import Signals

_LOOK_EVERY = 0.05
"""Seconds between two looks at whether a signal came."""


def start_session(builder: SparkSession.Builder, signals: Signals) -> SparkSession | None:
    """Start the session; None if a signal came before it was there, and its JVM may be starting still.

    Raises what the builder raises.
    """
    started: list[SparkSession] = []
    failed: list[BaseException] = []

    def start() -> None:
        try:
            started.append(builder.getOrCreate())
        except BaseException as error:  # raised again in the main thread
            failed.append(error)

    # In the main thread PySpark would take SIGINT for itself, and raise KeyboardInterrupt in the midst of its calls.
    thread = threading.Thread(target=start, name="session", daemon=True)
    thread.start()
    while thread.is_alive():
        if signals.came():
            return None
        thread.join(_LOOK_EVERY)
    if failed:
        raise failed[0]
    return started[0]
