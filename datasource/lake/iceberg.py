"""The lake's table, by pyiceberg: what of a stream it has, the files that have it, and commits of more files.

Only this folder knows pyiceberg, which is imported when a table with a lake is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConcurrentChangeError, LakeError, PravegaError, UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..positions.lake_history import History
from ..positions.snapshot import SegmentSlice
from .lake_catalogs import errors_of_lake, open_catalog
from .lake_columns import OF_PLACE, OFFSET, SEGMENT, TIME, UNITS
from .lake_files import Expression, LakeFile, is_own_name, list_files, make_expression

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot

FileIO: TypeAlias = Any
"""What reads and writes the files of a lake, as pyiceberg has it."""
_HISTORY = "pravega.history"
"""The property of the lake's table that has the `History` as JSON. It is committed together with the files."""
_STREAM = "pravega.stream"
"""The property that has the stream for which the table was made."""
_CUT, _VERSION = "pravega.cut", "pravega.version"
"""Properties of a snapshot that added events: the end of the history then."""
_OF_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "client.", "py-io-impl", "warehouse")
"""The beginnings of the properties that reading and writing of files needs."""
_RETRIES = "commit.retry.num-retries"
"""With another number than 0, pyiceberg repeats a commit after what another one has added in the meantime."""
UNPARTITIONED = "none"
"""The unit of a table without partitions."""
_TRIES = 5
"""How many times a commit is tried beside programs that rewrite files."""


@dataclass(frozen=True)
class LakeSnapshot:
    """What a lake's table consists of, since a time in microseconds since 1970.

    It has rows in so many data files with so many bytes, and files that delete some of them.
    """

    number: int | None
    timestamp: int | None
    rows: int
    files: int
    bytes: int
    delete_files: int


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

        opened = open_catalog(catalog)
        with errors_of_lake(name):
            try:
                return cls(opened.load_table(name), name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    @classmethod
    def create(cls, catalog: str, name: str, schema: pa.Schema, stream: Stream, unit: str) -> LakeTable:
        """Create the table of a stream, partitioned by a unit of the commit's time, or `none`.

        Raises the errors of `load`.
        """
        opened, namespace = open_catalog(catalog), name.rpartition(".")[0]
        with errors_of_lake(name):
            opened.create_namespace_if_not_exists(namespace)
            properties = {
                "comment": f"Events of Pravega's stream {stream}, kept by pyspark-pravega. Rows must not be changed.",
                _STREAM: str(stream),
                _RETRIES: "0",
                # Otherwise only the first characters of names count, which segments of a stream share.
                f"write.metadata.metrics.column.{SEGMENT}": "full",
                "write.metadata.delete-after-commit.enabled": "true",
                # Otherwise each tiering adds a manifest, and each scan reads all of them.
                "commit.manifest-merge.enabled": "true",
            }
            with opened.create_table_transaction(name, schema, properties=properties) as change:
                if unit != UNPARTITIONED:
                    with change.update_spec() as spec:
                        spec.add_field(TIME, unit, f"{TIME}_{unit}")
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
    def snapshot(self) -> LakeSnapshot:
        """Return what the table consists of."""
        current = self._table.current_snapshot()
        summary, names = _read_summary(current), ("records", "data-files", "files-size", "delete-files")
        totals = [int(summary.get(f"total-{name}", 0)) for name in names]
        if current is None:
            return LakeSnapshot(None, None, *totals)
        return LakeSnapshot(current.snapshot_id, current.timestamp_ms * 1000, *totals)

    def find_cut_since(self, moment: int) -> tuple[int, StreamCut] | None:
        """Return the version up to which the table has had all events since a moment, with its cut.

        The moment is in milliseconds since 1970. Returns None if no snapshot is left that is so old.
        """
        for snapshot in sorted(self._table.snapshots(), key=lambda one: one.timestamp_ms, reverse=True):
            summary = _read_summary(snapshot)
            if snapshot.timestamp_ms <= moment and _VERSION in summary:
                return int(summary[_VERSION]), StreamCut.from_text(summary[_CUT])
        return None

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

    @property
    def unit(self) -> str:
        """Return the unit of time that partitions have, `none` without partitions. Raises LakeError for others."""
        schema, spec = self._table.schema(), self._table.spec()
        parts = [(schema.find_field(part.source_id).name, str(part.transform)) for part in spec.fields]
        if len(parts) > 1 or any(column != TIME or unit not in UNITS for column, unit in parts):
            raise LakeError(
                f"The lake's table {self.name} has the partitions {parts}, and files of tier are those of one "
                f"{' or '.join(UNITS)} of {TIME}. Make that its partition again."
            )
        return parts[0][1] if parts else UNPARTITIONED

    def check_origin(self, stream: Stream, unit: str) -> None:
        """Raise LakeError unless the table was made for a stream, and has the partitions that tier makes."""
        if self._table.properties.get(_STREAM) != str(stream):
            raise LakeError(
                f"The table {self.name} of the lake's catalog was not made for stream {stream}. Name one that does not "
                "exist: tier makes it."
            )
        if self.unit != unit:
            raise LakeError(
                f"The partitions of the lake's table {self.name} are those of '{o.LAKE_PARTITION.key}'='{self.unit}', "
                f"and the table has '{o.LAKE_PARTITION.key}'='{unit}' ('{o.LAKE_PARTITION.default}' if it is not set). "
                f"The lake keeps its partitions: set the property to '{self.unit}'."
            )

    def check_complete(self) -> None:
        """Raise LakeError if the table has not the rows that its history says, since somebody has changed it."""
        history, now = self.history, self.snapshot
        if history is not None and (now.rows != history.rows or now.delete_files):
            raise LakeError(
                f"The lake's table {self.name} has {now.rows:,} rows and {now.delete_files:,} files of deleted rows, "
                f"and should have {history.rows:,} rows: another program has changed it. Files may be rewritten, but "
                "rows must stay. Roll the table back to the last snapshot with all rows, or read the stream alone with "
                "'lake'='ignore'."
            )

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise LakeError if another program has dropped or renamed one of the columns, or a field in one of them.

        A file has the names that columns had when it was written, and is read by these.
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
        names = [make_segment_name(stream, piece.segment_id) for piece in slices]
        placed = [
            make_expression("In", SEGMENT, set(names)),
            make_expression("GreaterThanOrEqual", OFFSET, min(piece.start for piece in slices)),
            make_expression("LessThan", OFFSET, max(piece.end for piece in slices)),
        ]
        wanted = reduce(partial(make_expression, "And"), placed if more is None else [*placed, more])
        with errors_of_lake(self.name):
            listed = sorted(list_files(self._table, wanted), key=lambda file: file.first)

        def select(name: str, piece: SegmentSlice) -> Iterator[LakeFile]:
            for file in listed:
                has_segment = (file.segment or "") <= name <= (file.last_segment or name)
                if has_segment and file.first < piece.end and piece.start <= file.last:
                    yield file

        return [list(select(*one)) for one in zip(names, slices, strict=True)]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns: those of the stream's table, and those that it has dropped."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self._table.schema(), include_field_ids=False)

    def find_small_files(self, most_bytes: int) -> list[list[LakeFile]]:
        """Return files with fewer bytes, by runs of neighbours of one segment and partition. Raises LakeError."""
        with errors_of_lake(self.name):
            listed = list_files(self._table, make_expression("AlwaysTrue"))
            files = sorted(listed, key=lambda file: (file.segment or "", file.first))
        of_runs = groupby(files, lambda file: (file.ordered and file.bytes < most_bytes, file.segment, file.partition))
        runs = [list(run) for (is_small, *_), run in of_runs if is_small]
        return [run for run in runs if len(run) > 1]

    def evolve(self, schema: pa.Schema) -> None:
        """Add the columns of a schema that are missing. Raises LakeError for one that has another type there."""
        with errors_of_lake(self.name), self._table.update_schema() as change:
            change.union_by_name(schema)

    def find_orphans(self, before: float) -> dict[str, int]:
        """Return the bytes of each file of a tiering or compaction that no snapshot has, and that is older than a time.

        The time is in seconds since 1970. Raises LakeError, and UnsupportedOperationError if Arrow lists no such files.
        """
        from pyarrow.fs import FileSelector
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = self._table.io
        if not isinstance(io, PyArrowFileIO):
            raise UnsupportedOperationError(
                f"Files in {self.folder} cannot be listed by Arrow. Use remove_orphan_files of Iceberg's runtime."
            )
        with errors_of_lake(self.name):
            paths = self._table.inspect.all_data_files().column("file_path").to_pylist()
            scheme, host, path = io.parse_location(self.folder, io.properties)
            listed = io.fs_by_scheme(scheme, host).get_file_info(FileSelector(path, allow_not_found=True))
        # Names are unique, whereas a program may have changed how the table spells the folder.
        named = {path.rpartition("/")[2] for path in paths}
        old = (file for file in listed if is_own_name(file.base_name) and file.mtime_ns < before * 1e9)
        return {f"{self.folder}/{file.base_name}": file.size for file in old if file.base_name not in named}

    def remove_files(self, paths: Iterable[str]) -> None:
        """Remove files that no snapshot has. Raises LakeError."""
        with errors_of_lake(self.name):
            for path in paths:
                self._table.io.delete(path)

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
        summary = {_CUT: until.cut.to_text(), _VERSION: str(until.version)}

        def add(change: Transaction) -> None:
            if self.history != since:
                raise ConcurrentChangeError(
                    f"Another tiering has added events to the lake's table {self.name} in the meantime. Nothing was "
                    "added twice. Call tier again for what is left."
                )
            change.set_properties({_HISTORY: until.to_json()})
            change.add_files(list(paths), summary, check_duplicate_files=False)

        self._commit(add)

    def replace_files(self, former: Sequence[str], paths: Sequence[str], rows: int) -> None:
        """Commit files with the rows of others, in place of these. Raises ConcurrentChangeError, LakeError."""
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        def replace(change: Transaction) -> None:
            files = {task.file.file_path: task.file for task in self._table.scan().plan_files()}
            present = [files[path] for path in former if path in files]
            if len(present) < len(former):
                raise ConcurrentChangeError(
                    f"Another compaction, or another program, has rewritten files of the lake's table {self.name} in "
                    "the meantime. Nothing was changed. Call compact_lake again for what is left."
                )
            count = sum(file.record_count for file in present)
            if rows != count:
                raise LakeError(
                    f"Files of the lake's table {self.name} should have {count:,} rows by Iceberg's metadata, and "
                    f"{rows:,} were read. Nothing was changed. Restore the files {', '.join(former[:3])} and what "
                    "follows them, or roll the table back."
                )
            with change.update_snapshot().overwrite() as snapshot:
                for file in present:
                    snapshot.delete_data_file(file)
                for file in parquet_files_to_data_files(self._table.io, change.table_metadata, iter(paths)):
                    snapshot.append_data_file(file)

        self._commit(replace)

    def _commit(self, act: Callable[[Transaction], None]) -> None:
        """Commit what `act` puts into a transaction, and try it again on what others have committed meanwhile."""
        from pyiceberg.exceptions import CommitFailedException

        for tries in range(1, _TRIES + 1):
            try:
                with errors_of_lake(self.name, CommitFailedException):
                    if self._table.properties.get(_RETRIES) != "0":
                        self._table.transaction().set_properties({_RETRIES: "0"}).commit_transaction()
                    self._keep_what_landed()
                    with self._table.transaction() as change:
                        act(change)
                self.__dict__.pop("history", None)
                return
            except CommitFailedException as error:
                if tries == _TRIES:
                    raise LakeError(
                        f"The lake's table {self.name} was changed by others again and again: {error}. Repeat the call."
                    ) from None
                with errors_of_lake(self.name):
                    self._table.refresh()
                self.__dict__.pop("history", None)


def _read_summary(snapshot: Snapshot | None) -> Mapping[str, str]:
    """Return the properties of a snapshot; none without a snapshot, or if it has no summary."""
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
