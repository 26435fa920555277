"""Runs work that is as deeply recursive as the data is nested, without Python's stack.

A step returns its result, or a generator that yields the steps whose results it waits for and returns its own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...core.columns import Misfit

DEEPEST = 500
"""Most levels of objects and arrays in a JSON text. Python's parser ends at twice this, and `from_json` at 1,000."""
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def run(work: Any, deepest: int) -> Any:
    """Return the result of a step. Raises Misfit if more than `deepest` generators wait for each other.

    A Misfit of a generator is raised in the generator that waits for its result.
    """
    if not isinstance(work, Generator):
        return work
    stack = [work]
    result: Any = None
    error: Misfit | None = None
    while stack:
        try:
            deeper = stack[-1].send(result) if error is None else stack[-1].throw(error)
        except StopIteration as done:
            stack.pop()
            result, error = done.value, None
        except Misfit as misfit:
            stack.pop()
            result, error = None, misfit
        else:
            result, error = deeper, None
            if isinstance(deeper, Generator):
                if len(stack) == deepest:
                    raise Misfit(TOO_DEEP)
                stack.append(deeper)
                result = None
    if error is not None:
        raise error
    return result
