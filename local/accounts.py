"""Users of a local cluster and the password file that Pravega and the registry share.

A line of the file is `user:hash:entry;entry;`. An entry is `resource,PERMISSION`, where the resource is a regular
expression with `*` for `.*`. The first entry that matches a whole resource decides.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_pravega.errors import InvalidOptionError

_ITERATIONS = 5000
_ITERATIONS_OF_RANDOM = 1
"""Rounds for random passwords, whose 144 bits nobody guesses: the server hashes at each call, 20 ms for 5000 rounds."""

_SALT_BYTES = 32
_KEY_BYTES = 64
_PASSWORD_BYTES = 18
_PERMISSIONS = ("NONE", "READ", "READ_UPDATE")

SERVER_USER = "pyspark-pravega-server"
"""The servers' own identity for calls to each other; nobody learns its password."""


@dataclass(frozen=True)
class Account:
    """The password and the rights of a user."""

    entries: tuple[str, ...] = ()
    """Access entries, `resource,PERMISSION` with PERMISSION one of NONE, READ, READ_UPDATE, for example
    `prn::/scope:iot/stream:sensor,READ`. The first that matches decides."""
    password: str | None = field(default=None, repr=False)
    """None asks for a random one."""
    random: bool = field(default=False, repr=False)
    """Whether the password is a random one that was made here."""


DEFAULT_ACCOUNTS: Mapping[str, Account] = {
    "admin": Account(("prn::*,READ_UPDATE",)),
    # Children of scopes may be written, scopes themselves (creating streams) only read.
    "writer": Account(("prn::/scope:*/*,READ_UPDATE", "prn::*,READ")),
    "reader": Account(("prn::*,READ",)),
    "nobody": Account(),
}
"""All rights; write existing streams; read everything; nothing at all."""


def fill_in_passwords(accounts: Mapping[str, Account]) -> dict[str, Account]:
    """Return the accounts and the servers' own, each with a password.

    Raises InvalidOptionError for a name or an entry that the password file cannot hold, or that the server drops.
    """
    complete = {SERVER_USER: Account(("prn::*,READ_UPDATE",), _make_password(), random=True)}
    for name, account in accounts.items():
        if not name or name == SERVER_USER or name.startswith("#") or set(name) & set(":\r\n"):
            raise InvalidOptionError(
                f"user name {name!r} is not allowed: it must not be empty, start with #, contain a colon or a line "
                f"break, or be {SERVER_USER}"
            )
        for entry in account.entries:
            resource, _, permission = entry.rpartition(",")
            if not resource or permission not in _PERMISSIONS or set(entry) & set(";\r\n"):
                raise InvalidOptionError(
                    f"access entry {entry!r} of user {name} is not of the form resource,PERMISSION with "
                    f"PERMISSION one of {', '.join(_PERMISSIONS)}, for example prn::/scope:iot,READ"
                )
        random = account.password is None
        complete[name] = Account(account.entries, _make_password() if random else account.password, random)
    return complete


def find_server_password(accounts: Mapping[str, Account]) -> str:
    """Return the password of the servers' own identity among accounts of `fill_in_passwords`."""
    password = accounts[SERVER_USER].password
    assert password is not None
    return password


def format_password_file(accounts: Mapping[str, Account]) -> str:
    """Return the content of the password file; every account must have a password."""
    lines = []
    for name, account in accounts.items():
        assert account.password is not None
        entries = "".join(f"{entry};" for entry in account.entries)
        iterations = _ITERATIONS_OF_RANDOM if account.random else _ITERATIONS
        lines.append(f"{name}:{_hash(account.password, iterations)}:{entries}\n")
    # No blank line: the server stops reading there.
    return "".join(lines)


def _make_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def _hash(password: str, iterations: int) -> str:
    """Return the hash that the server checks: hex of `iterations:hex salt:hex key`, key = PBKDF2-HMAC-SHA256."""
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, iterations, _KEY_BYTES)
    return f"{iterations}:{salt.hex()}:{key.hex()}".encode("ascii").hex()
