"""Finds the native decoder: a module compiled from the Rust sources in this folder, if it was built.

Nothing depends on it: without it, or with the environment variable PYSPARK_PRAVEGA_NATIVE=0, events
are read by the reference decoder in `formats/`, with the same rows and the same errors, only slower.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

SWITCH = "PYSPARK_PRAVEGA_NATIVE"
"""The environment variable that turns the native decoder off if it is 0: for tests, and to rule it out as a cause. It
has to be set where events are decoded: in Spark's Python workers (`spark.executorEnv.PYSPARK_PRAVEGA_NATIVE`)."""

INTERFACE = 9
"""The version of the interface between this package and the compiled module; both must have the same."""


@dataclass(frozen=True)
class Status:
    """Whether the native decoder is used; `text` describes it, `advice` says how to get it if it is not used."""

    active: bool
    text: str
    advice: str = ""


def _load() -> tuple[ModuleType | None, Status]:
    try:
        _native = importlib.import_module("pyspark_pravega.native._native")
    except ImportError as error:
        built = "In a source checkout install Rust's cargo (https://rustup.rs) and run `make native`; otherwise install"
        built += " a wheel made for this platform."
        if isinstance(error, ModuleNotFoundError):
            return None, Status(False, "not built: events are decoded by the reference decoder in Python", built)
        return None, Status(False, f"cannot be loaded ({error}): events are decoded in Python", built)
    if _native.INTERFACE != INTERFACE:
        text = f"built from other sources (interface {_native.INTERFACE}, but {INTERFACE} is needed)"
        return None, Status(False, f"{text}: events are decoded in Python", "Run `make native`.")
    return _native, Status(True, f"of sources {_native.SOURCES[:12]} ({_native.__file__})")


_module, _status = _load()


def get_status() -> Status:
    """Return whether native code decodes events in this process, and why not."""
    if _status.active and _is_switched_off():
        text = f"switched off by {SWITCH}=0: events are decoded by the reference decoder in Python"
        return Status(False, text, f"Unset {SWITCH}.")
    return _status


def get_module() -> ModuleType | None:
    """Return the compiled module; None if it is missing or switched off."""
    return None if _is_switched_off() else _module


def _is_switched_off() -> bool:
    return os.environ.get(SWITCH, "").strip() == "0"
