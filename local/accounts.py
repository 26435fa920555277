"""Users of a local cluster and the password file that Pravega and the registry share.

A line of the file is `user:hash:entry;entry;`. An entry is `resource,PERMISSION`; its resource is a
regular expression in which `*` stands for `.*`, and the first entry that matches a whole resource decides.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_pravega.errors import InvalidOptionError

_ITERATIONS = 5000
_ITERATIONS_OF_RANDOM = 1
"""Nobody guesses 144 random bits. The server computes the hash at each call, with 5000 rounds in some 20 ms."""

_SALT_BYTES = 32
_KEY_BYTES = 64
_PASSWORD_BYTES = 18
_PERMISSIONS = ("NONE", "READ", "READ_UPDATE")

SERVER_USER = "pyspark-pravega-server"
"""The servers' own identity for calls to each other; its password is told to nobody."""


@dataclass(frozen=True)
class Account:
    """What a user may do.

    Attributes:
        entries: access entries, `resource,PERMISSION` with PERMISSION one of NONE, READ, READ_UPDATE,
            for example `prn::/scope:iot/stream:sensor,READ`. The first that matches decides.
        password: a random one is made when it is None.
        random: whether the password was made here, and not chosen by somebody.
    """

    entries: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    random: bool = field(default=False, repr=False)


DEFAULT_ACCOUNTS: Mapping[str, Account] = {
    "admin": Account(("prn::*,READ_UPDATE",)),
    # Children of scopes may be written, scopes themselves (creating streams) only read.
    "writer": Account(("prn::/scope:*/*,READ_UPDATE", "prn::*,READ")),
    "reader": Account(("prn::*,READ",)),
    "nobody": Account(),
}
"""All rights; write existing streams; read everything; nothing at all."""


def fill_in_passwords(accounts: Mapping[str, Account]) -> dict[str, Account]:
    """The accounts and the server's own, each with a password.

    Raises:
        InvalidOptionError: a name or an entry that the password file cannot hold or the server drops.
    """
    complete = {SERVER_USER: Account(("prn::*,READ_UPDATE",), _random_password(), random=True)}
    for name, account in accounts.items():
        if not name or name == SERVER_USER or name.startswith("#") or set(name) & set(":\r\n"):
            raise InvalidOptionError(
                f"user name {name!r} is not possible: it must not be empty, start with #, contain a colon "
                f"or a line break, or be {SERVER_USER}"
            )
        for entry in account.entries:
            resource, _, permission = entry.rpartition(",")
            if not resource or permission not in _PERMISSIONS or set(entry) & set(";\r\n"):
                raise InvalidOptionError(
                    f"access entry {entry!r} of user {name} is not of the form resource,PERMISSION with "
                    f"PERMISSION one of {', '.join(_PERMISSIONS)}, for example prn::/scope:iot,READ"
                )
        random = account.password is None
        complete[name] = Account(account.entries, _random_password() if random else account.password, random)
    return complete


def server_password(accounts: Mapping[str, Account]) -> str:
    """The password of the servers' own identity among accounts made by `fill_in_passwords`."""
    password = accounts[SERVER_USER].password
    assert password is not None
    return password


def password_file(accounts: Mapping[str, Account]) -> str:
    """Content of the password file; every account must have a password."""
    lines = []
    for name, account in accounts.items():
        assert account.password is not None
        entries = "".join(f"{entry};" for entry in account.entries)
        iterations = _ITERATIONS_OF_RANDOM if account.random else _ITERATIONS
        lines.append(f"{name}:{_hash(account.password, iterations)}:{entries}\n")
    # No blank line: the server stops reading there.
    return "".join(lines)


def _random_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def _hash(password: str, iterations: int) -> str:
    """Hex of `iterations:hex salt:hex key`, key = PBKDF2-HMAC-SHA256, as the server checks it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, iterations, _KEY_BYTES)
    return f"{iterations}:{salt.hex()}:{key.hex()}".encode("ascii").hex()
