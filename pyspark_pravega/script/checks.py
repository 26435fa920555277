"""Read a script's `SET pravega.stream.*`, and find, without Spark, mistakes in a script before it runs.

Whatever is refused here, Spark would refuse too. Spark's own parser may refuse more later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from pyspark_pravega.errors import InvalidScriptError, PravegaError, ServerUnavailableError
from pyspark_pravega.spark.home import find_spark_version
from pyspark_pravega.sql.identifiers import find_nearest
from pyspark_pravega.sql.options import CHECKPOINT, CONTROLLER_URI, Options, resolve, resolve_script
from pyspark_pravega.sql.script import Statement

PREFIX = "pravega.stream."
"""Prefix of the keys of script settings."""
_SETTING = re.compile(rf"SET\s+`?({re.escape(PREFIX)}[\w.-]+)`?\s*=(.*)", re.IGNORECASE | re.DOTALL)
_VARIABLE = "${"
"""The beginning of a reference that Spark replaces."""
_BEGINNINGS = frozenset(
    "ADD ALTER ANALYZE CACHE CALL CLEAR COMMENT CREATE DECLARE DELETE DESC DESCRIBE DROP EXECUTE EXPLAIN FROM GRANT "
    "INSERT LIST LOAD MAP MERGE MSCK REDUCE REFRESH REPAIR REPLACE RESET REVOKE SELECT SET SHOW TABLE TRUNCATE UNCACHE "
    "UPDATE USE VALUES WITH".split()
)
"""Words with which Spark statements begin, without those that Spark only knows in order to refuse them."""
_TYPO = 0.75
"""From this similarity on, a word counts as one of these, mistyped."""
_FIRST_CONTACT = 8.0
"""Seconds for which a controller is tried before Spark starts; Spark would try it again for longer."""
NO_CHECKPOINT = (
    "a streaming statement needs a checkpoint, the directory where Spark notes how far it has read. Write this before "
    f"it: SET {CHECKPOINT.key} = '/a/directory'."
)
FIRST_SPARK = "4.3"
"""The first version of Spark that analyzes an INSERT which reads a STREAM."""
OLDER_SPARK = (
    f"Spark can start an INSERT that reads a STREAM from {FIRST_SPARK} on, but this Spark is older. Start the query in "
    "Python: spark.sql('SELECT ... FROM STREAM ...').writeStream.option('checkpointLocation', '...').toTable('<t>')."
)


def read_stream_settings(confs: Mapping[str, str]) -> Options:
    """Return the settings of streaming statements among the confs of a session. Raises InvalidOptionError."""
    ours = {key: text for key, text in confs.items() if key.lower().startswith(PREFIX)}
    return resolve_script({key: _strip_quotes(text) for key, text in ours.items()})


def _strip_quotes(text: str) -> str:
    """Take off the quotes of `SET key = 'text'`, which Spark keeps as a part of the value."""
    stripped = text.strip()
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\""
    return stripped[1:-1] if quoted else stripped


def find_first_mistake(script: Sequence[Statement]) -> str | None:
    """Return what is wrong with the first statement that cannot run, with its line; None without a mistake."""
    confs: dict[str, str] = {}
    is_complete = True
    for statement in script:
        try:
            _check_beginning(statement)
            _check_brackets(statement)
            if statement.words[0] == "RESET":
                confs = {}
                is_complete = is_complete and len(statement.words) == 1  # RESET with a key leaves other settings
            elif match := _SETTING.fullmatch(statement.text):
                key, text = match[1].lower(), match[2]
                is_complete = is_complete and _VARIABLE not in text
                if _VARIABLE not in text:
                    confs[key] = text
                    read_stream_settings(confs)
            elif _is_insert_from_stream(statement):
                if find_spark_version(os.environ) < FIRST_SPARK:
                    raise InvalidScriptError(OLDER_SPARK)
                if is_complete and CHECKPOINT.key not in confs:
                    raise InvalidScriptError(NO_CHECKPOINT)
        except PravegaError as error:
            return f"Line {statement.line}: {error.for_user()}"
    return None


def check_controller(script: Sequence[Statement], catalog: str, settings: Mapping[str, str]) -> None:
    """Look whether a controller answers, if the script names the catalog, and does not itself say how to connect.

    Raises InvalidOptionError if no address is set, ServerUnavailableError if no controller answers there. Whatever
    else a controller answers, such as a missing right, is the business of the statements.
    """
    if not any(_names(statement, catalog.upper()) for statement in script) or any(
        CONTROLLER_URI.key in statement.text.lower() for statement in script
    ):
        return
    options = resolve(conf=settings, env=os.environ)
    options.require(CONTROLLER_URI)

    from pyspark_pravega.client import connect
    from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact

    limited = read_first_contact(options) and _FIRST_CONTACT
    try:
        with connect(read_client_config(options), first_contact=limited) as pravega:
            pravega.controller.list_scopes()
    except ServerUnavailableError:
        raise
    except PravegaError:
        return


def _names(statement: Statement, catalog: str) -> bool:
    """Return whether a statement has the catalog's name; for statements such as SHOW, all after SHOW is one token."""
    whole = statement.words[1:] == ("",)
    return not statement.is_setting and (catalog in statement.words or (whole and catalog in statement.text.upper()))


def _check_beginning(statement: Statement) -> None:
    first = statement.words[0]
    if not first.isalpha() or first in _BEGINNINGS:
        return
    near = find_nearest(first, _BEGINNINGS, least=_TYPO)
    if near is not None:
        raise InvalidScriptError(f"No statement begins with {first}. Did you mean {near}?")


def _check_brackets(statement: Statement) -> None:
    opened, closed = statement.words.count("("), statement.words.count(")")
    if opened != closed:
        raise InvalidScriptError(
            f"The statement has {opened} '(' and {closed} ')'. Look for a missing one, or for an extra semicolon."
        )


def _is_insert_from_stream(statement: Statement) -> bool:
    """Return whether an INSERT names a STREAM itself; a stream behind a view goes unnoticed."""
    words = statement.words
    if words[:2] != ("INSERT", "INTO"):
        return False
    # A table may also be called `stream`, but then no name with a dot follows.
    return any(
        before in ("FROM", "JOIN") and word == "STREAM" and ("(" in after or after[1] == ".")
        for before, word, *after in zip(words, words[1:], words[2:], words[3:], strict=False)
    )
