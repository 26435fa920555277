"""The requests of the Java adapter to the catalog service.

One class for each; Java calls the operation by the name of the class in snake case. The replies are those of
`replies`, or the plain value that the description names. Each module has the requests about one thing, and this package
has all their names too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from pyspark_pravega.errors import ProtocolError

from .insert_requests import *  # noqa: F403
from .insert_requests import WriteRequest
from .message_codec import decode
from .procedure_requests import *  # noqa: F403
from .procedure_requests import ProcedureRequest, RunningQueryRequest
from .scan_requests import *  # noqa: F403
from .scan_requests import PlanningRequest, StopStream, StreamRequest
from .table_requests import *  # noqa: F403
from .table_requests import LoadSource, NamespaceRequest, TableRequest, ViewRequest

CatalogRequest: TypeAlias = (
    NamespaceRequest
    | TableRequest
    | ViewRequest
    | PlanningRequest
    | StreamRequest
    | StopStream
    | WriteRequest
    | ProcedureRequest
    | RunningQueryRequest
)
"""Requests about one configured catalog."""

Request: TypeAlias = CatalogRequest | LoadSource


OPERATIONS: Mapping[str, type[Request]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in get_args(Request)
}
"""The classes of requests, by the names by which Java calls them."""


@dataclass(frozen=True)
class Envelope:
    """A request with the conf of the catalog that it is about."""

    conf: Mapping[str, str]
    request: Request


def read_request(value: Mapping[str, Any]) -> Envelope:
    """Read the JSON object `{"operation", "conf", "arguments"}`; raises the errors of `decode`."""
    conf: Sequence[tuple[str, str]] = value["conf"]
    name = value["operation"]
    kind = OPERATIONS.get(name)
    if kind is None:
        raise ProtocolError(f"The service knows no operation '{name}': is the adapter's jar of another version?")
    return Envelope(dict(conf), decode(kind, value["arguments"]))
