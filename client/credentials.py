"""Credentials: the value of the `authorization` header for the controller and the schema registry.

Pravega ships with one scheme, `Basic`; servers with their own plug-in accept others. The server compares the
scheme case-sensitively. Segment stores never see these credentials, only the tokens of `segments.delegation`.
"""

from __future__ import annotations

import base64
import importlib
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pyspark_pravega.errors import AuthenticationError, InvalidOptionError


@runtime_checkable
class Credentials(Protocol):
    """An object that identifies the caller. It must be picklable, because tasks on executors use it too."""

    def authorization(self) -> str:
        """Return the header value, "Scheme token". Called for every request, so it may refresh a token."""
        ...


@dataclass(frozen=True)
class BasicCredentials:
    """A user name and a password, for the built-in password files of Pravega and of the registry."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.username:
            raise InvalidOptionError("the user name is empty; give one, or leave the credentials out")
        if ":" in self.username:
            raise InvalidOptionError(
                f"the user name '{self.username}' holds a ':', which Basic credentials cannot carry"
            )

    def authorization(self) -> str:
        pair = f"{self.username}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode("ascii")


@dataclass(frozen=True)
class TokenCredentials:
    """A ready-made token of any scheme, e.g. method `Bearer`, or `Basic` with base64(user:password).

    The Java client reads the pair from `pravega_client_auth_method` and `pravega_client_auth_token`.
    """

    method: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.method or not self.method.isascii() or not self.method.isprintable() or " " in self.method:
            raise InvalidOptionError(
                f"the authentication method {self.method!r} must be one word such as Basic or Bearer"
            )
        if not _is_header_text(self.token):
            raise InvalidOptionError(
                f"the token for the authentication method '{self.method}' is empty or holds characters that a header "
                "cannot carry (only printable ASCII, no blanks at the ends)"
            )
        if self.method == "Basic" and not _is_basic_token(self.token):
            raise InvalidOptionError(
                "the token for the authentication method 'Basic' is not base64 of user:password. Give the user and the "
                "password instead, or the token of: printf 'user:password' | base64"
            )

    def authorization(self) -> str:
        return f"{self.method} {self.token}"


def load_credentials(reference: str) -> Credentials:
    """Return the credentials of a plug-in that is named as `package.module:attribute`.

    The attribute is an object with a method `authorization()`, or a class or function that returns one when called
    without arguments. Raises InvalidOptionError, which names the reference.
    """
    target = load_plug_in(reference)
    if isinstance(target, type) or not isinstance(target, Credentials):
        if not callable(target):
            raise InvalidOptionError(f"the credentials plug-in '{reference}' has no method authorization()")
        try:
            target = target()
        except (Exception, SystemExit) as error:
            # Only the class of the error is shown, since its text may hold what the plug-in was configured with.
            raise InvalidOptionError(
                f"the credentials plug-in '{reference}' could not be created ({type(error).__name__})"
            ) from error
        if not isinstance(target, Credentials):
            raise InvalidOptionError(
                f"the object that the credentials plug-in '{reference}' returned has no method authorization()"
            )
    return target


def load_plug_in(reference: str) -> object:
    """Return what a plug-in's name `package.module:attribute` stands for. Raises InvalidOptionError, which names it."""
    module_name, colon, attribute_path = reference.partition(":")
    if not colon or not module_name or not attribute_path:
        raise InvalidOptionError(f"the credentials plug-in '{reference}' must be written as package.module:attribute")
    try:
        target: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidOptionError(
            f"the credentials plug-in '{reference}' cannot be imported ({type(error).__name__}: {error}); "
            "it must be installed on the driver and on every executor"
        ) from error
    for name in attribute_path.split("."):
        try:
            target = getattr(target, name)
        except AttributeError as error:
            raise InvalidOptionError(f"the credentials plug-in '{reference}': there is no '{name}'") from error
    return target


def make_authorization_header(credentials: Credentials | None) -> str | None:
    """Return the checked header value to send now; None without credentials.

    Raises AuthenticationError, without the value, if a plug-in fails or returns something that is not a header value.
    """
    if credentials is None:
        return None
    kind = type(credentials).__name__
    try:
        value: object = credentials.authorization()
    except (Exception, SystemExit) as error:
        raise AuthenticationError(f"the credentials {kind} could not give a token ({type(error).__name__})") from error
    if not isinstance(value, str) or not _is_header_text(value) or " " not in value:
        raise AuthenticationError(
            f"the credentials {kind} gave no valid authorization header; it must be 'Scheme token' in ASCII"
        )
    return value


def _is_basic_token(token: str) -> bool:
    try:
        # Java's decoder takes a token without its padding.
        return b":" in base64.b64decode(token + "=" * (-len(token) % 4), validate=True)
    except ValueError:
        return False


def _is_header_text(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isascii() and text.isprintable()
