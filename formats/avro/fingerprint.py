"""Normalizes Avro schemas as the specification says, so that equal schemas can be told from different ones."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

ALGORITHM = "CRC-64-AVRO"


@dataclass(frozen=True)
class NormalizedSchema:
    """A schema in its Parsing Canonical Form, and the form's CRC-64-AVRO.

    Schemas with the same form describe the same bytes. The fingerprint has the byte order of Avro's single-object
    encoding, in hexadecimal.
    """

    canonical: str
    fingerprint: str


def normalize_schema(text: str) -> NormalizedSchema | None:
    """Return a schema text in its normal form; None for a text that is not a valid schema."""
    try:
        canonical = to_parsing_canonical_form(json.loads(text))
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError):
        return None
    return NormalizedSchema(canonical, fingerprint(canonical, ALGORITHM))
