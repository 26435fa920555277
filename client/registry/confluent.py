"""Asks a schema registry with Confluent's REST API, such as Confluent's own or Apicurio, for schemas by their ids."""

from __future__ import annotations

import re
from typing import Any

import httpx

from pyspark_pravega import errors

from ..config import ClientConfig
from ..credentials import Credentials
from ..retry import FirstContact
from .http import RegistryRequests, Request
from .registry_types import Encoding, SchemaInfo, VersionInfo

_encodings: dict[tuple[str | None, Credentials | None, int], Encoding] = {}
"""What ids stand for at an address, as a login may read it. A registry never gives an id another meaning."""


class ConfluentRegistry(RegistryRequests):
    """The schemas of one registry. It can do what readers of events need of a `SchemaRegistry`."""

    kind, advice = "Confluent's registry", ""

    def __init__(self, config: ClientConfig) -> None:
        """Send nothing yet. Raises InvalidOptionError if there is no address."""
        self._key = config.confluent_uri, config.confluent_credentials
        super().__init__(config.at_confluent(), None, FirstContact())

    def refuse(self, response: httpx.Response, request: Request) -> errors.PravegaError:
        status = response.status_code
        # Without this code, a 404 is from another server, which says nothing about ids.
        if status == 404 and re.search(r'"error_code"\s*:\s*40403\b', response.text):
            return errors.SchemaNotFoundError("it has no such schema, so declare the columns of a new table")
        reason = f"it answered {status}; check the address and the login, which sessions of 'security.user-logins' lack"
        if refusal := {401: errors.AuthenticationError, 403: errors.PermissionDeniedError}.get(status):
            return refusal(reason)
        error = errors.RegistryError(reason)
        error.status = status
        return error

    def encoding(self, group: str, id: int) -> Encoding:
        """Return the schema with an id, without a version, as it has one in each subject; a process asks once.

        Raises InvalidSchemaError for a schema that refers to others, and the errors of `SchemaRegistry`.
        """
        if id >> 31:
            raise errors.SchemaNotFoundError(f"no registry gives out the id {id}")
        key = (*self._key, id)
        if key not in _encodings:
            try:
                _encodings[key] = self.ask(Request("GET", f"/schemas/ids/{id}"), lambda reply: _read(reply, id))
            except errors.PravegaError as error:
                error.message = f"asking {key[0]}, the 'confluent.registry-uri', for schema {id}: {error.message}"
                raise
        return _encodings[key]


def _read(reply: Any, id: int) -> Encoding:
    if names := [reference["name"] for reference in reply.get("references") or ()]:
        raise errors.InvalidSchemaError(
            f"it refers to other schemas ({', '.join(names)}), which nobody looks up; register one that has them in it"
        )
    format = reply.get("schemaType", "AVRO").capitalize()  # as Pravega's registry writes AVRO, JSON and PROTOBUF
    return Encoding(SchemaInfo("", format, reply["schema"].encode()), VersionInfo("", format, -1, id), "")
