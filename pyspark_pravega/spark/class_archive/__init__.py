"""The archive of Spark's classes on this machine, with which drivers start in two thirds of the time."""

from __future__ import annotations

from pyspark_pravega.spark.class_archive.archive import (
    JAVA_OPTIONS_CONF,
    check_class_path,
    choose_driver_options,
    find_archive,
)
from pyspark_pravega.spark.class_archive.recording import record

__all__ = ["JAVA_OPTIONS_CONF", "check_class_path", "choose_driver_options", "find_archive", "record"]
