"""Makes JSON Schema texts that every registry accepts.

Registry 0.6.0 parses a JSON schema as draft 3 first, with Jackson, which knows no keyword of later drafts and no
keyword of our own; what that refuses goes to a validator that not every installation has on its class path, and then
adding the schema fails with an internal error (SchemaRegistryService.validateJsonSchema). So what is registered uses
only keywords that all drafts share, and carries the full schema in a link, as hyper-schema allows:

    {"type": "object", "properties": {"id": {"type": "integer"}},
     "links": [{"rel": "spark-schema", "href": "data:application/schema+json;base64,..."}]}

Readers that do not know the link see names and types; nullability and exact types are in the link.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from pyspark_pravega.errors import InvalidSchemaError

from .schema_references import BY_NAME

REL = "spark-schema"
_PREFIX = "data:application/schema+json;base64,"
_SHARED = ("title", "description", "format", "default")


def portable(text: str) -> str:
    """Return the text to register for a schema of our own."""
    link = {"rel": REL, "href": _PREFIX + base64.b64encode(text.encode()).decode("ascii")}
    return json.dumps(_shared(json.loads(text)) | {"links": [link]}, ensure_ascii=False)


def portable_foreign(text: str) -> str:
    """Return the text to register for another program's schema that was edited here: all of it but our keywords."""
    link = {"rel": REL, "href": _PREFIX + base64.b64encode(text.encode()).decode("ascii")}
    root = _without_ours(json.loads(text))
    links = root.get("links")
    others = [each for each in links if not (isinstance(each, dict) and each.get("rel") == REL)] if links else []
    return json.dumps(root | {"links": [*others, link]}, ensure_ascii=False)


def _without_ours(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ours(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _without_ours(each) for name, each in inner.items()}
        if key in BY_NAME and isinstance(inner, dict)
        else _without_ours(inner)
        for key, inner in value.items()
        if not key.startswith("spark.")
    }


def full_schema(root: Any) -> Any:
    """Return the full schema that a parsed text carries; the text itself if it carries none.

    Raises InvalidSchemaError if it carries something else under our name.
    """
    links = root.get("links") if isinstance(root, dict) else None
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == REL:
            try:
                return json.loads(base64.b64decode(str(link.get("href")).removeprefix(_PREFIX), validate=True))
            except (binascii.Error, ValueError):
                raise InvalidSchemaError(f"the link '{REL}' of the JSON schema holds no JSON schema") from None
    return root


def _shared(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {}
    kind = node.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    result = ({} if kind is None else {"type": kind}) | {key: node[key] for key in _SHARED if key in node}
    if "properties" in node:
        result["properties"] = {name: _shared(each) for name, each in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = _shared(node[key])
    return result
