"""Finds each user's own login, for a server whose sessions belong to users of its own."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials, load_plug_in
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError, describe_os_error
from pyspark_pravega.sql.options import USER_LOGINS

KEPT_SECONDS = 60.0
"""How long a plug-in is not asked again for a user. The least recently used answers are forgotten sooner."""
_TOKEN = {"auth-type", "auth-token"}


@dataclass(frozen=True)
class UserLogin:
    """The login of one user, and which state of their entry it is from: connections of another state are others."""

    user: str
    state: str = field(repr=False)
    credentials: Credentials = field(repr=False)


class UserLogins:
    """Reads logins from the file or the plug-in that `security.user-logins` names; thread-safe."""

    def __init__(self) -> None:
        self._of_plug_ins: Recent[tuple[str, str], tuple[float, Credentials]] = Recent()

    def find(self, source: str, user: str) -> UserLogin:
        """Return the login of a user; `source` is the option's value. A file is read again for each call.

        Raises AuthenticationError for a user without one, InvalidOptionError for a file or plug-in that is no good.
        """
        if not user:
            raise AuthenticationError(
                f"The catalog has '{USER_LOGINS.key}', and Spark does not tell whose session this is, so it has no "
                "rights. Sessions of JDBC and Spark Connect have users; queries of start_query have none."
            )
        login = self._read_file(source, user) if source.startswith("/") else self._ask(source, user)
        if login is None:
            raise AuthenticationError(
                f"User '{user}' has no login in '{USER_LOGINS.key}', and so no rights. Whoever runs this "
                "server adds one."
            )
        return login

    def _ask(self, plug_in: str, user: str) -> UserLogin | None:
        moment, login = self._of_plug_ins.find((plug_in, user)) or (0.0, None)
        if login is None or time.monotonic() - moment >= KEPT_SECONDS:
            make: Any = load_plug_in(plug_in)
            try:
                keywords = make(user)
            except (Exception, SystemExit) as error:
                # Only the class of the error is shown, since its text may hold what the plug-in was configured with.
                raise AuthenticationError(
                    f"The plug-in '{plug_in}' of '{USER_LOGINS.key}' failed for user '{user}' ({type(error).__name__})"
                ) from error
            if keywords is None:
                return None
            if not isinstance(keywords, Credentials):
                raise InvalidOptionError(
                    f"What the plug-in '{plug_in}' of '{USER_LOGINS.key}' returns has no method authorization()."
                )
            login = login if login == keywords else keywords  # for the connections of one that is the same
            self._of_plug_ins.put((plug_in, user), (time.monotonic(), login))
        return UserLogin(user, str(id(login)), login)

    def _read_file(self, path: str, user: str) -> UserLogin | None:
        try:
            with open(path, encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise InvalidOptionError(
                        f"The file '{path}' of '{USER_LOGINS.key}' may be read by others; run: chmod 600 '{path}'"
                    )
                entries = json.load(file)
        except OSError as error:
            raise InvalidOptionError(
                f"The file '{path}' of '{USER_LOGINS.key}' cannot be read: {describe_os_error(error)}."
            ) from None
        except ValueError:  # its text may hold a password
            entries = None
        if not isinstance(entries, dict):
            raise InvalidOptionError(
                f"The file '{path}' of '{USER_LOGINS.key}' is not a JSON object from names of users to passwords."
            )
        if user not in entries:
            return None
        state = hashlib.sha256(json.dumps(entries[user], sort_keys=True).encode()).hexdigest()
        return UserLogin(user, state, _read_entry(path, user, entries[user]))


def _read_entry(path: str, user: str, entry: object) -> Credentials:
    if isinstance(entry, str) and entry:
        return BasicCredentials(user, entry)
    if isinstance(entry, dict) and entry.keys() == _TOKEN and all(isinstance(text, str) for text in entry.values()):
        return TokenCredentials(entry["auth-type"], entry["auth-token"])
    raise InvalidOptionError(
        f"In the file '{path}' of '{USER_LOGINS.key}', the entry of user '{user}' is neither a password nor an object "
        f"with {' and '.join(sorted(_TOKEN))}."
    )
