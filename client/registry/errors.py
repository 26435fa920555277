"""Turns refusals of the schema registry into the errors of this package.

The server often answers with a bare status, so the request is needed to say what went wrong.
"""

from __future__ import annotations

from pyspark_pravega.errors import (
    AuthenticationError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    PermissionDeniedError,
    PravegaError,
    ProtocolError,
    RegistryError,
    SchemaExistsError,
    SchemaNotFoundError,
    ServerUnavailableError,
)

from ..config import Endpoint
from .http import Response

_LONGEST_REASON = 300


def refusal(
    response: Response, endpoint: Endpoint, *, namespace: str | None, group: str | None, right: str
) -> PravegaError:
    """Make the error for a status that is no success. `right` says what was tried with the group."""
    status = response.status
    reason = _reason(response)
    path = response.path
    adding_schema = response.method == "POST" and path.endswith("/schemas")
    if group is None:
        target = "the schema registry"
    else:
        target = f"the schema group '{group}' of " + (
            "the default namespace" if namespace is None else f"namespace '{namespace}'"
        )
    if status == 401:
        return AuthenticationError(
            "the schema registry knows no such user, or the password is wrong"
            + (f" ({target})" if group is not None else "")
            + "; check the credentials"
        )
    if status == 403:
        return PermissionDeniedError(f"the user may not {right} {target}; grant {_needed(namespace, group, right)}")
    if status == 404 and path.endswith("/v1/groups"):
        return ProtocolError(f"what answers at {endpoint} is no schema registry; check its address")
    if status == 404:
        return SchemaNotFoundError(f"{target} is not there, or has nothing at {path}{reason}")
    if status == 409:
        if right == "create":
            return SchemaExistsError(f"{target} exists already")
        if adding_schema:
            return IncompatibleSchemaError(
                f"{target} refuses the schema: its compatibility policy does not allow the change, or it "
                f"takes one type only{reason}"
            )
        return IncompatibleSchemaError(f"{target} was changed by somebody else meanwhile{reason}")
    if status in (400, 417) and adding_schema:
        what = "its format is not that of the group" if status == 417 else "it cannot be parsed or is misnamed"
        return InvalidSchemaError(f"{target} refuses the schema: {what}{reason}")
    error = RegistryError(f"the schema registry answered {status} when asked to {right} {target}{reason}")
    error.status = status
    error.group = group
    return error


def may_pass(error: BaseException) -> bool:
    """Tell whether a request that may be repeated is sent again: the registry is away, or answered 500.

    Registry 0.6.0 answers 500 for some seconds while Pravega's containers move to another server ("updateEntries in
    table: _schemaregistry/groups/0" in its log). On secured servers it answers so to the first change after its own
    token for Pravega has expired: it gets a new token and then sends a buffer that is freed already
    (IllegalReferenceCountException).
    """
    return isinstance(error, ServerUnavailableError) or (isinstance(error, RegistryError) and error.status == 500)


def _reason(response: Response) -> str:
    text = response.text.strip()
    # Internal errors come as HTML pages that say nothing.
    if not text or text.startswith("<"):
        return ""
    return f" ({text[:_LONGEST_REASON]})"


def _needed(namespace: str | None, group: str | None, right: str) -> str:
    """Return the permission to ask for, in the notation of the registry's password file."""
    scope = "prn::/" if namespace is None else f"prn::/namespace:{namespace}"
    if group is None or right == "create":
        return f"{scope},READ_UPDATE"
    resource = f"prn::/namespace:{namespace or '/'}/group:{group}"
    if right in ("add a schema to", "delete a schema of"):
        return f"{resource}/schemas:*,READ_UPDATE"
    if right == "add a codec to":
        return f"{resource}/codecs:*,READ"
    return f"{resource},READ" if right == "read" else f"{resource},READ_UPDATE"
