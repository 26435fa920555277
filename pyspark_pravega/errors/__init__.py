"""The errors that a user can see: one root, and one condition name each, in the style of Spark's error conditions.

Every message names the object concerned, what was wrong with it and what to do. Secrets never enter a message. All
classes take one string, so that they survive pickling between Python workers.

The page docs/troubleshooting.md is generated from these classes: the docstring is the cause, `cure` the remedy.

All are subclasses of PravegaError. Programs match the condition, which Spark's errors have, too:

    try:
        pravega.controller.stream_configuration(Stream("plant", "temperatures"))
    except PravegaError as error:
        print(error.condition, error.sql_state, error.message)
"""

from __future__ import annotations

from .root import PravegaError as PravegaError
from .root import describe_os_error as describe_os_error
from .root import format_count as format_count
from .root import shorten as shorten
from .server_errors import *  # noqa: F403
from .statement_errors import *  # noqa: F403  # noqa: F403
from .stream_errors import *  # noqa: F403
