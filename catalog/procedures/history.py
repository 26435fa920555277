"""Procedures on the history of a table: tags, and its commit log."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructType

from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.scan.time_travel import create_tag
from pyspark_pravega.datasource.tags import Tags
from pyspark_pravega.errors import ConditionalUpdateError

from ..connections import Catalog
from ..metadata.table import Rows, column
from .procedure import DRY_RUN, TABLE, Procedure, flag, is_set, parameter, required, stream_of

_MAY_CHANGE = "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope"
_TAG = column("tag", StringType(), "its name", nullable=False)
_REPLACE = flag("replace", "whether a tag of this name may be there, and is replaced")


def _create_tag(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    stream, name = stream_of(catalog, arguments), required(arguments, "tag")
    tag = create_tag(catalog.pravega, stream, name, arguments.get("version"), replace=is_set(arguments, _REPLACE))
    yield tag.name, tag.version, tag.cut.to_text()


def _drop_tag(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    tags, name = Tags(catalog.pravega, stream_of(catalog, arguments)), required(arguments, "tag")
    found = next((tag for tag in tags.all() if tag.name == name), None)
    dropped = tags.drop(name) if found is not None and not is_set(arguments, DRY_RUN) else False
    yield name, None if found is None else found.version, None if found is None else found.cut.to_text(), dropped


def _compact_history(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    log, made = CommitLog(catalog.pravega, stream_of(catalog, arguments)), 0
    while True:
        try:
            some = log.fold()
        except ConditionalUpdateError:
            continue  # a writer folds at the same time
        made += some
        if not some:
            break
    yield log.newest(), made


CREATE_TAG = Procedure(
    "create_tag",
    "Names a position of a table for VERSION AS OF.",
    (
        TABLE,
        parameter("tag", "its name"),
        parameter("version", "a version, a tag or a stream cut; by default the end of the table now", optional=True),
        _REPLACE,
    ),
    StructType(
        [
            _TAG,
            column("version", LongType(), "the one that ends there, if one does"),
            column("stream_cut", StringType(), "the position", nullable=False),
        ]
    ),
    _MAY_CHANGE,
    _create_tag,
)
DROP_TAG = Procedure(
    "drop_tag",
    "Removes a tag. The events stay.",
    (TABLE, parameter("tag", "its name"), DRY_RUN),
    StructType(
        [
            _TAG,
            column("version", LongType(), "the one that ended there, if one did"),
            column("stream_cut", StringType(), "where it was; null if there was none of this name"),
            column("dropped", BooleanType(), "whether it was removed", nullable=False),
        ]
    ),
    _MAY_CHANGE,
    _drop_tag,
)
COMPACT_HISTORY = Procedure(
    "compact_history",
    "Folds all old versions of the commit log into checkpoints, which commits do by and by. No version is lost.",
    (TABLE,),
    StructType(
        [
            column("versions", LongType(), "that the table has", nullable=False),
            column("checkpoints", IntegerType(), "that were made", nullable=False),
        ]
    ),
    _MAY_CHANGE,
    _compact_history,
)
