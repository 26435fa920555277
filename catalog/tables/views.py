"""Views: Spark's text of a query with the settings that it depends on, kept in the hidden table of its scope.

Tables and views share their names. Views are not kept with streams, so nothing stops another program from making a
stream with the name of a view: the name then means the table, until that is dropped.

Pravega does not say who has written an entry of the hidden table, and an author's name or a signature in it could be
copied by everybody who may write there. So only the process that made a view knows whose it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from operator import eq
from typing import Any

from pyspark_pravega import errors
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_view, is_internal, quote_all
from pyspark_pravega.sql.refusals import describe_view_refusal

from .. import protocol as r
from ..protocol.message_codec import decode
from ..protocol.service_replies import ViewDefinition
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.scope_table import Row, RowKind, ScopeTable
from ..storage.spelling import check_scope_exists, find_address, resolve_scope, resolve_stream, spell_for_sql
from . import key_value_tables, merged_tables

_SPARK_SETS = ("owner", "table_type")
"""Properties of every view in Spark. In Pravega users have rights to the streams below, and do not own views."""
_METRIC_VIEW = "METRIC_VIEW"
_made: dict[tuple[str, Stream], bytes] = {}
"""Fingerprints of the views that this process has made and that are still there, by login and name."""
_EVOLUTION = "EVOLUTION"
"""Spark's schema modes of this kind: it stores new columns when a view is read, but only in its own catalog."""


def list_views(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the views of a scope, even one whose name now means a table. Raises ScopeNotFoundError."""
    scope = resolve_scope(catalog, namespace)
    names = list_names(catalog, scope)
    if not names:
        check_scope_exists(catalog, namespace, scope)
    return spell_for_sql(catalog, names)


def list_names(catalog: Catalog, scope: str) -> list[str]:
    """Return the names of a scope's views as they are kept. Raises PermissionDeniedError."""
    return [row["name"] for row in ScopeTable(catalog.pravega, scope).rows(RowKind.VIEW)]


def find(catalog: Catalog, identifier: r.Identifier, *, to_read: bool = False) -> ViewDefinition | None:
    """Return a view, or None if there is none or the user may not read the views of the scope.

    `to_read`: its text is to be run or shown. Raises UnsupportedOperationError if the conf of the catalog forbids it.
    """
    if len(identifier.namespace) != 1 or is_internal(identifier.namespace[0]):
        return None
    stream = resolve_stream(catalog, identifier.namespace, identifier.name)
    row = ScopeTable(catalog.pravega, stream.scope).read_if_allowed(RowKind.VIEW, stream.name)
    if row is None:
        return None
    if to_read:
        _check_trust(catalog, catalog.named(*identifier.parts), stream, row)
    view = decode(ViewDefinition, row, newer=True)
    # Spark stores no others: one of another program's row would make a catalog of its own.
    settings = {key: text for key, text in view.settings.items() if not key.startswith("spark.sql.catalog.")}
    return replace(view, catalog=view.catalog or catalog.name, settings=settings)


def _check_trust(catalog: Catalog, shown: str, stream: Stream, row: Mapping[str, Any]) -> None:
    """Raise UnsupportedOperationError for a view whose text the driver does not run."""
    trusted = catalog.options().get(o.VIEWS)
    if trusted == "true" or (trusted == "own" and _make_fingerprint(row) == _made.get(_make_key(catalog, stream))):
        return
    reason, advice = "", "ask whoever runs the driver"
    if trusted == "own":
        reason = ", and this driver has not made it with your login, or others have changed it"
        advice = "CREATE OR REPLACE VIEW with SQL of your own"
    raise errors.UnsupportedOperationError(
        f"View {shown} is not read: its SQL, which others may have written, would run with your rights. The catalog "
        f"conf '{o.VIEWS.key}' is '{trusted}'{reason}. Read its tables instead, or {advice}."
    )


def _make_key(catalog: Catalog, stream: Stream) -> tuple[str, Stream]:
    """Return what tells the view of a name, made with this login, from others."""
    options = catalog.options()
    login = [catalog.user, *(options.text(option) for option in (o.CONTROLLER_URI, *o.LOGIN))]
    return hashlib.sha256(json.dumps(login).encode()).hexdigest(), stream


def _make_fingerprint(row: Mapping[str, Any]) -> bytes:
    content = {key: row[key] for key in _CONTENT}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


@contextmanager
def refuse_views(catalog: Catalog, identifier: r.Identifier, statement: str) -> Iterator[None]:
    """Turn StreamNotFoundError for the name of a view into the error that views do not take the statement."""
    try:
        yield
    except errors.StreamNotFoundError:
        if find(catalog, identifier) is None:
            raise
        raise errors.UnsupportedOperationError(
            describe_view_refusal(statement, catalog.named(*identifier.parts))
        ) from None


def check_no_view(catalog: Catalog, identifier: r.Identifier) -> None:
    """Raise ViewExistsError if a new table would have the name of a view."""
    if find(catalog, identifier) is not None:
        raise errors.ViewExistsError(f"There is a view {catalog.named(*identifier.parts)}. DROP VIEW drops it.")


def put(catalog: Catalog, request: r.PutView) -> None:
    """Create a view, or replace one as a whole.

    Raises StreamExistsError if the name is that of a table, ViewExistsError, ViewNotFoundError, InvalidNameError,
    ScopeNotFoundError, InvalidOptionError for one that is too large, UnsupportedOperationError for a metric view, for
    one WITH SCHEMA EVOLUTION or of a STREAM, and if the catalog's conf forbids views.
    """
    view, shown = request.view, catalog.named(*request.parts)
    if request.streaming:
        raise errors.UnsupportedOperationError(describe_view_refusal("CREATE VIEW ... FROM STREAM", shown))
    if view.properties.get("table_type") == _METRIC_VIEW:
        raise errors.UnsupportedOperationError(describe_view_refusal("CREATE VIEW ... WITH METRICS", shown))
    if str(view.schema_mode).endswith(_EVOLUTION):
        raise errors.UnsupportedOperationError(describe_view_refusal("WITH SCHEMA EVOLUTION", shown))
    new = _check_new_name(catalog, request)

    def make_changed(row: Mapping[str, Any]) -> Mapping[str, Any]:
        if row and not request.replace:
            raise errors.ViewExistsError(f"There is a view {shown}.")
        if not row and not request.make:
            raise errors.ViewNotFoundError(f"There is no view {shown}.")
        return {**row, **_make_row(catalog, view)}

    if catalog.options().get(o.VIEWS) == "false":
        raise errors.UnsupportedOperationError(
            f"View {shown} is not created: the catalog conf '{o.VIEWS.key}' is 'false'. Ask whoever runs the driver."
        )
    with prefix_errors("View", shown):
        ScopeTable(catalog.pravega, new.scope).change(RowKind.VIEW, new.name, make_changed)
    _made[_make_key(catalog, new)] = _make_fingerprint(_make_row(catalog, view))


def rename(catalog: Catalog, old: r.Identifier, new: r.Identifier) -> None:
    """Give a view another name, in one step; in another scope it has both names for a moment.

    Raises ViewNotFoundError, and for the new name what `put` raises.
    """
    if len(new.namespace) == 2 and new.namespace[0] == catalog.name:
        new = r.Identifier(new.namespace[1:], new.name)
    before = resolve_stream(catalog, old.namespace, old.name)
    after = _check_new_name(catalog, new)
    new_table, here = ScopeTable(catalog.pravega, after.scope), ScopeTable(catalog.pravega, before.scope)

    def check_row(row: Row | None, existing: Row | None) -> Row:
        if row is None:
            raise errors.ViewNotFoundError(f"There is no view {catalog.named(*old.parts)}.")
        if existing:
            raise errors.ViewExistsError(f"There is a view {catalog.named(*new.parts)}.")
        return row

    moved = after.scope == before.scope
    if moved:
        here.rename(RowKind.VIEW, before.name, after.name, check_row)
    while not moved:
        row = check_row(here.read(RowKind.VIEW, before.name), None)
        new_table.change(RowKind.VIEW, after.name, partial(check_row, row))
        try:
            moved = here.remove(RowKind.VIEW, before.name, partial(eq, row))
        except errors.PermissionDeniedError:
            new_table.remove(RowKind.VIEW, after.name, partial(eq, {**row, "name": after.name}))
            raise
        if not moved:  # it was replaced or dropped in the meantime
            new_table.remove(RowKind.VIEW, after.name, partial(eq, {**row, "name": after.name}))
    _made[_make_key(catalog, after)] = _made.pop(_make_key(catalog, before), b"")


def drop(catalog: Catalog, identifier: r.Identifier) -> bool:
    """Drop a view; False if there is none."""
    if len(identifier.namespace) != 1:
        return False
    stream = resolve_stream(catalog, identifier.namespace, identifier.name)
    _made.pop(_make_key(catalog, stream), None)
    return ScopeTable(catalog.pravega, stream.scope).remove(RowKind.VIEW, stream.name)


def _check_new_name(catalog: Catalog, identifier: r.Identifier) -> Stream:
    """Return the scope and the name under which a new view is kept. Raises the errors of `put`."""
    address = find_address(catalog, identifier, new=True)
    stream = address.stream
    check_new_view(stream.name)
    if is_internal(stream.scope):
        scope = quote_all(identifier.namespace)
        raise errors.InvalidNameError(f"The namespace {scope} belongs to Pravega. Create the view in another.")
    if catalog.pravega.controller.stream_exists(stream) or key_value_tables.has_table(catalog, stream):
        raise errors.StreamExistsError(f"There is a table {address.shown}.")
    merged_tables.check_none(catalog, address)
    check_scope_exists(catalog, identifier.namespace, stream.scope)
    return stream


def _make_row(catalog: Catalog, view: ViewDefinition) -> dict[str, Any]:
    """Make the stored row of a view. The view's own catalog is stored as None: its name may differ between sessions."""
    stored = {
        "schema": view.schema.json(),
        "catalog": None if view.catalog == catalog.name else view.catalog,
        "properties": {key: value for key, value in view.properties.items() if key not in _SPARK_SETS},
    }
    return {name: stored.get(name, getattr(view, name)) for name in _CONTENT}


_CONTENT = tuple(field.name for field in fields(ViewDefinition))
