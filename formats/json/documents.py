"""Parses texts as JSON by the rules that `format` lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..core.columns import NEGATIVE_ZERO, NumberText
from ..core.framing import Undecodable, decode_text, describe_foreign_framing
from ..core.scalars import is_nested_deeper

DEEPEST = 512
"""Most levels of nested arrays and objects."""

_WHITE_SPACE = " \t\r\n"
_BYTE_ORDER_MARK = "\ufeff"
_BLANKS = re.compile(r"[ \t\r\n]*")
_NEGATIVE_ZERO = re.compile(r"-0(?:[ \t\r\n,}\]]|\Z)")


class DocumentParser:
    """Parses documents, and values inside a document.

    `exact_numbers`: numbers that are not whole become NumberText. `nothing`: the message about a payload of only white
    space. `signed_zeros`: a whole number -0 becomes NEGATIVE_ZERO.
    """

    def __init__(
        self, exact_numbers: bool, nothing: str = "it consists of white space only", *, signed_zeros: bool = False
    ) -> None:
        decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=str.encode if exact_numbers else None)
        # The function that `raw_decode` calls, without its cost per call. It is not in the published types.
        self._scan: Callable[[str, int], tuple[Any, int]] = vars(decoder)["scan_once"]
        self._nothing = nothing
        self._signed_zeros = signed_zeros
        signed = json.JSONDecoder(
            parse_constant=_refuse_constant, parse_float=decoder.parse_float, parse_int=_parse_signed
        )
        self._scan_signed: Callable[[str, int], tuple[Any, int]] = vars(signed)["scan_once"]

    def text(self, payload: bytes) -> str:
        """Return the text of a document, without white space around it. Raises Undecodable."""
        if payload[:1] == b"\0" and (foreign := describe_foreign_framing(payload)):
            raise Undecodable(foreign)
        text = decode_text(payload)
        if not (text.startswith("{") and text.endswith("}")):
            text = text.removeprefix(_BYTE_ORDER_MARK).strip(_WHITE_SPACE)
            if not text:
                raise Undecodable(self._nothing)
        if len(text) > DEEPEST and is_nested_deeper(text, DEEPEST):
            raise Undecodable(f"its arrays and objects are nested more than {DEEPEST} levels deep")
        return text

    def value(self, text: str, begin: int) -> tuple[Any, int]:
        """Return the value that begins at a place, after any white space, and its end. Raises Undecodable."""
        if text[begin : begin + 1] in _WHITE_SPACE:
            match = _BLANKS.match(text, begin)
            assert match is not None
            begin = match.end()
        try:
            return self.choose_scan(text)(text, begin)
        except StopIteration as error:
            raise Undecodable(f"it is not a JSON document (character {error.value})") from None
        except json.JSONDecodeError as error:
            what = error.msg.removesuffix(" at")
            raise Undecodable(f"it is not a JSON document ({what} at character {error.pos})") from None
        except ValueError as error:
            raise Undecodable(f"it is not a JSON document ({error})") from None
        except RecursionError:
            raise Undecodable(f"its arrays and objects are nested more than {DEEPEST} levels deep") from None

    def choose_scan(self, text: str, *, bare: bool = False) -> Callable[[str, int], tuple[Any, int]]:
        """Return what scans a text: a slower function if it may have the whole number -0 and signs matter.

        `bare`: the text may have numbers with nothing between them.
        """
        if self._signed_zeros and "-0" in text and (bare or _NEGATIVE_ZERO.search(text)):
            return self._scan_signed
        return self._scan

    def document(self, text: str) -> Any:
        """Parse a whole text as one value. Raises Undecodable."""
        document, end = self.value(text, 0)
        if end != len(text):
            raise Undecodable(f"something follows the JSON document at character {end}")
        return document


def _parse_signed(digits: str) -> int | NumberText:
    return NEGATIVE_ZERO if digits == "-0" else int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f'{name} is not JSON; write "{name}"')
