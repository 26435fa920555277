"""Functions that Spark's Python workers run in tasks, pickled as Spark's own planning workers do it.

The catalog service plans in its own process, so that neither a scan nor an INSERT starts a planning worker.
"""

from __future__ import annotations

import base64
import io
import pickle
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.serializers import CPickleSerializer, read_int
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StructField, StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from .data_source import PravegaDataSource
from .dispatch.dispatch_task import DispatchMessage
from .insert.reports import InsertMessage
from .scan.reader import BATCH_EVENTS

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of Python that pickles these functions, and the only one that can run them."""
_COUNTS = ("rows", "bytes", "retries")


def pickle_read(reader: DataSourceReader, schema: StructType) -> tuple[str, list[str]]:
    """Return the function that reads a partition, and the partitions, in base64."""
    out = io.BytesIO()
    write_read_func_and_partitions(
        out,
        reader=_PickledReader(reader),  # type: ignore[arg-type]
        data_source=PravegaDataSource({}),
        schema=_Pickled(schema),  # type: ignore[arg-type]
        max_arrow_batch_size=BATCH_EVENTS,
        binary_as_bytes=True,
    )
    out.seek(0)
    function = out.read(read_int(out))
    return _encode_text(function), [_encode_text(pickle.dumps(partition)) for partition in reader.partitions()]


class _Pickled:
    """Stands for a value in a function that Spark pickles by cloudpickle, which looks at each object in Python."""

    def __init__(self, value: object) -> None:
        self._data = pickle.dumps(value)

    def __reduce__(self) -> tuple[object, ...]:
        return pickle.loads, (self._data,)


class _PickledReader(_Pickled):
    """Stands for a reader whose partitions go another way."""

    def partitions(self) -> list[InputPartition]:
        return []


def pickle_write(writer: DataSourceArrowWriter) -> str:
    """Return the function that writes the rows of a task, in base64.

    It returns the task's message, and what Spark shows of it: numbers in the order that `TaskMetric.java` has.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = writer.write(batches)
        assert isinstance(message, InsertMessage | DispatchMessage)
        report = pa.array([CPickleSerializer().dumps(message)], pa.binary())
        counts = [pa.array([count], pa.int64()) for count in (message.rows, message.bytes, message.retries)]
        yield pa.record_batch([report, *counts], names=["message", *_COUNTS])

    # Spark's worker recognizes a data source's function by this module.
    write.__module__ = "pyspark.sql.worker.write_into_data_source"
    answer = StructType([StructField("message", BinaryType()), *(StructField(name, LongType()) for name in _COUNTS)])
    return _encode_text(CPickleSerializer().dumps((write, answer)))


def _encode_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
