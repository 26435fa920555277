"""The lake's table, by pyiceberg: what of a stream it has, the files that have it, and commits of more files.

Nothing else knows pyiceberg, which is imported when a table with a lake is used.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.errors import ConcurrentChangeError, InvalidOptionError, LakeError, PravegaError

from ..positions.lake_history import History
from ..positions.snapshot import BEYOND, SegmentSlice
from .lake_columns import OF_PLACE, OFFSET, SEGMENT, TIME

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

Expression: TypeAlias = Any
"""A condition on columns of a lake, as pyiceberg has it."""
FileIO: TypeAlias = Any
"""What reads and writes the files of a lake, as pyiceberg has it."""
_HISTORY = "pravega.history"
"""The property of the lake's table that has the `History` as JSON. It is committed together with the files."""
_STREAM = "pravega.stream"
"""The property that has the stream for which the table was made."""
_OF_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "client.", "py-io-impl", "warehouse")
"""The beginnings of the properties that reading and writing of files needs."""
_OWN_FILES = "pravega-"
"""The beginning of the names of files whose rows are events of one segment, in their order."""
_RETRIES = "commit.retry.num-retries"
"""With another number than 0, pyiceberg repeats a commit after what another one has added in the meantime."""
_TRIES = 5
"""How many times a commit is tried beside programs that rewrite files."""
_CATALOGS: Recent[str, Any] = Recent(16)


@dataclass(frozen=True)
class LakeFile:
    """A file with offsets from `first` to `last`; if it is `ordered`, those of one segment in their order."""

    path: str
    first: int
    last: int
    ordered: bool


class LakeTable:
    """A table of a lake as it was loaded: its history, its files and its columns do not change any more."""

    def __init__(self, table: Table, name: str) -> None:
        self._table, self.name = table, name

    @classmethod
    def load(cls, catalog: str, name: str) -> LakeTable | None:
        """Load a table by its name in the catalog of some settings, a JSON object; None if there is none.

        Raises LakeError, and InvalidOptionError for settings with which there is no catalog.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        opened = _open_catalog(catalog)
        with _errors_of_lake(name):
            try:
                return cls(opened.load_table(name), name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    @classmethod
    def create(cls, catalog: str, name: str, schema: pa.Schema, stream: Stream) -> LakeTable:
        """Create the table of a stream, partitioned by the day of the commit; raises the errors of `load`."""
        opened, namespace = _open_catalog(catalog), name.rpartition(".")[0]
        with _errors_of_lake(name):
            if not opened.namespace_exists(namespace):
                opened.create_namespace(namespace)
            properties = {
                "comment": f"Events of Pravega's stream {stream}, kept by pyspark-pravega. Rows must not be changed.",
                _STREAM: str(stream),
                _RETRIES: "0",
                # Otherwise only the first characters of names count, which segments of a stream share.
                f"write.metadata.metrics.column.{SEGMENT}": "full",
                "write.metadata.delete-after-commit.enabled": "true",
            }
            with opened.create_table_transaction(name, schema, properties=properties) as change:
                with change.update_spec() as spec:
                    spec.add_field(TIME, "day", f"{TIME}_day")
                with change.update_schema() as columns:
                    for column, (_, doc) in OF_PLACE.items():
                        columns.update_column(column, doc=doc)
            return cls(opened.load_table(name), name)

    @cached_property
    def history(self) -> History | None:
        """Return what the table has of its stream; None if it has nothing yet. Raises LakeError."""
        text = self._table.properties.get(_HISTORY)
        if text is None:
            return None
        try:
            return History.from_json(text)
        except (ValueError, KeyError, TypeError, PravegaError) as error:
            raise LakeError(
                f"The property '{_HISTORY}' of the lake's table {self.name} cannot be read ({error}). Restore it from "
                "an earlier metadata file of the table."
            ) from None

    def find_end(self, segment: int, start: int) -> int:
        """Return up to which offset of a segment the table has what begins at `start`; `start` if it has nothing."""
        return start if self.history is None else self.history.find_end(segment, start)

    @property
    def io(self) -> FileIO:
        """Return what reads and writes files, for tasks: it knows the storage, and nothing of the catalog."""
        from pyiceberg.io import load_file_io

        known = {key: text for key, text in self._table.io.properties.items() if key.startswith(_OF_STORAGE)}
        return load_file_io(known, self._table.location())

    @property
    def folder(self) -> str:
        """Return where new files belong."""
        return f"{self._table.location().rstrip('/')}/data"

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns and of their fields, such as `s.a` and `l.element.a`."""
        return self._table.schema().column_names

    def compile(self, expression: Expression) -> pc.Expression:
        """Return an expression on columns as Arrow evaluates it."""
        from pyiceberg.expressions.visitors import bind
        from pyiceberg.io.pyarrow import expression_to_pyarrow

        schema = self._table.schema()
        return expression_to_pyarrow(bind(schema, expression, case_sensitive=True), schema)

    def check_origin(self, stream: Stream) -> None:
        """Raise LakeError unless the table was made for a stream, and its partitions are still the same."""
        if self._table.properties.get(_STREAM) != str(stream):
            raise LakeError(
                f"The table {self.name} of the lake's catalog was not made for stream {stream}. Name one that does not "
                "exist: tier makes it."
            )
        schema, spec = self._table.schema(), self._table.spec()
        parts = [(schema.find_field(part.source_id).name, str(part.transform)) for part in spec.fields]
        if parts != [(TIME, "day")]:
            raise LakeError(
                f"The lake's table {self.name} has the partitions {parts}, and files of tier are those of a day of "
                f"{TIME}. Make this its partition again."
            )

    def check_complete(self) -> None:
        """Raise LakeError if the table has not the rows that its history says, since somebody has changed it."""
        history, current = self.history, self._table.current_snapshot()
        summary: Any = {} if current is None or current.summary is None else current.summary.additional_properties
        rows, deletes = (int(summary.get(f"total-{name}", 0)) for name in ("records", "delete-files"))
        if history is not None and (rows != history.rows or deletes):
            raise LakeError(
                f"The lake's table {self.name} has {rows:,} rows and {deletes:,} files of deleted rows, and should "
                f"have {history.rows:,} rows: another program has changed it. Files may be rewritten, but rows must "
                "stay. Roll the table back to the last snapshot with all rows, or read the stream alone with "
                "'lake'='ignore'."
            )

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise LakeError if another program has ever dropped or renamed a column of the lake, or a field in it.

        A file has them under the names of the time when it was written, and is read by these.
        """
        schema, top = self._table.schema(), {*columns, *OF_PLACE}
        names = {schema.find_field(name).field_id: name for name in schema.column_names}
        for former in self._table.metadata.schemas:
            for name in former.column_names:
                now = names.get(former.find_field(name).field_id)
                if now != name and not top.isdisjoint({(now or name).partition(".")[0], name.partition(".")[0]}):
                    raise LakeError(
                        f"Another program has dropped or renamed column {name} of the lake's table {self.name}: its "
                        "files may not say any more what the stream had. Go back to the table's metadata file from "
                        "before that, or read the stream alone with 'lake'='ignore'."
                    )

    def find_files(
        self, stream: Stream, slices: Sequence[SegmentSlice], more: Expression | None = None
    ) -> list[list[LakeFile]]:
        """Return the files with events of each slice, in the order of their first offsets.

        Files without rows that fulfil `more` are left out. All manifests are read once. Raises LakeError.
        """
        from pyiceberg.conversions import from_bytes
        from pyiceberg.types import PrimitiveType

        names = [make_segment_name(stream, piece.segment_id) for piece in slices]
        placed = [
            make_expression("In", SEGMENT, set(names)),
            make_expression("GreaterThanOrEqual", OFFSET, min(piece.start for piece in slices)),
            make_expression("LessThan", OFFSET, max(piece.end for piece in slices)),
        ]
        wanted = reduce(partial(make_expression, "And"), placed if more is None else [*placed, more])
        schema = self._table.schema()

        def find_bound(file: DataFile, column: str, upper: bool) -> Any:
            field, bounds = schema.find_field(column), file.upper_bounds if upper else file.lower_bounds
            bound = (bounds or {}).get(field.field_id)
            return None if bound is None else from_bytes(cast("PrimitiveType", field.field_type), bound)

        listed = []
        with _errors_of_lake(self.name):
            for task in self._table.scan(wanted).plan_files():
                file = task.file
                first, last = (find_bound(file, OFFSET, upper) for upper in (False, True))
                lowest, highest = (find_bound(file, SEGMENT, upper) for upper in (False, True))
                is_own = file.file_path.rpartition("/")[2].startswith(_OWN_FILES)
                ordered = is_own and lowest == highest and None not in (lowest, first, last)
                kept = LakeFile(file.file_path, first or 0, BEYOND if last is None else last, ordered)
                listed.append((lowest or "", highest, kept))
        listed.sort(key=lambda file: file[2].first)

        def files_of(name: str, piece: SegmentSlice) -> Iterator[LakeFile]:
            for lowest, highest, file in listed:
                if lowest <= name <= (highest or name) and file.first < piece.end and piece.start <= file.last:
                    yield file

        return [list(files_of(*one)) for one in zip(names, slices, strict=True)]

    def evolve(self, schema: pa.Schema) -> None:
        """Add the columns of a schema that are missing. Raises LakeError for one that has another type there."""
        with _errors_of_lake(self.name), self._table.update_schema() as change:
            change.union_by_name(schema)

    def _keep_what_landed(self) -> None:
        """Take a commit for done that the catalog refuses, but has carried out: a proxy may have sent it twice.

        pyiceberg looks for that only before it tries again, and removes the manifests of a commit that was refused.
        """
        table = self._table
        commit = type(table)._do_commit

        def commit_once(updates: Any, requirements: Any) -> None:
            try:
                commit(table, updates, requirements)
            except Exception:
                table.refresh()
                added = [update.snapshot.snapshot_id for update in updates if hasattr(update, "snapshot")]
                if not added or None in map(table.metadata.snapshot_by_id, added):
                    raise

        table._do_commit = commit_once  # type: ignore[method-assign]

    def add_files(self, paths: Sequence[str], since: History | None, until: History) -> None:
        """Commit files, with the history that the table has with them.

        Raises ConcurrentChangeError if the table has no longer the history `since`: another tiering was faster. Other
        commits, which rewrite files, do not disturb it. Raises LakeError.
        """
        from pyiceberg.exceptions import CommitFailedException

        for tries in range(1, _TRIES + 1):
            if self.history != since:
                raise ConcurrentChangeError(
                    f"Another tiering has added events to the lake's table {self.name} in the meantime. Nothing was "
                    "added twice. Call tier again for what is left."
                )
            try:
                with _errors_of_lake(self.name, CommitFailedException):
                    if self._table.properties.get(_RETRIES) != "0":
                        self._table.transaction().set_properties({_RETRIES: "0"}).commit_transaction()
                    self._keep_what_landed()
                    with self._table.transaction() as change:
                        change.set_properties({_HISTORY: until.to_json()})
                        summary = {"pravega.cut": until.cut.to_text(), "pravega.version": str(until.version)}
                        change.add_files(list(paths), summary, check_duplicate_files=False)
                self.__dict__.pop("history", None)
                return
            except CommitFailedException as error:
                if tries == _TRIES:
                    raise LakeError(
                        f"The lake's table {self.name} was changed by others again and again: {error}. Call tier again."
                    ) from None
                with _errors_of_lake(self.name):
                    self._table.refresh()
                self.__dict__.pop("history", None)


def make_expression(name: str, *operands: Any) -> Expression:
    """Return an expression of one of pyiceberg's classes; its operands are expressions, names of columns and values."""
    return getattr(import_module("pyiceberg.expressions"), name)(*operands)


def name_file(number: str) -> str:
    """Return the name of a file whose rows are events of one segment, in their order."""
    return f"{_OWN_FILES}{number}.parquet"


def _open_catalog(settings: str) -> Catalog:
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise InvalidOptionError(
            "A table with a lake needs pyiceberg: pip install 'pyspark-pravega[lake]', on the driver and where tasks "
            "run."
        ) from None

    def load() -> Catalog:
        return load_catalog("lake", **json.loads(settings))

    try:
        catalog: Catalog = _CATALOGS.get(settings, load)
        return catalog
    except Exception as error:  # pyiceberg's catalogs raise errors of many libraries
        raise InvalidOptionError(
            f"The catalog of the lake cannot be opened ({type(error).__name__}). Correct the confs "
            "'spark.sql.catalog.<name>.lake.*': they are the properties of one of pyiceberg's catalogs, such as "
            "'lake.type' and 'lake.uri'."
        ) from error


@contextmanager
def _errors_of_lake(name: str, but: type[Exception] = PravegaError) -> Iterator[None]:
    """Make a LakeError of any error of the body, except for some: libraries of catalogs and storages have many."""
    try:
        yield
    except (PravegaError, but):
        raise
    except Exception as error:
        raise LakeError(f"The lake's table {name} cannot be used: {type(error).__name__}: {error}.") from error
