"""The archive of Spark's classes on this machine, with which drivers start in two thirds of the time."""

from __future__ import annotations

from .archive import JAVA_OPTIONS_CONF, ClassArchive, check_class_path, driver_options
from .recording import record

__all__ = ["JAVA_OPTIONS_CONF", "ClassArchive", "check_class_path", "driver_options", "record"]
