"""Certificates and password files; that the servers accept them is tested in test_cluster.py."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.local.accounts import SERVER_USER, Account, fill_in_passwords, format_password_file
from pyspark_pravega.local.certificates import create_certificates
from pyspark_pravega.local.directories import Certificates


def _handshake(files: Certificates, host: str) -> set[str]:
    """TLS between a server and a client as strict as Python 3.13's default; the names in the certificate."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(files.chain, files.key)
    client_context = ssl.create_default_context(cafile=files.ca)
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    client, server = socket.socketpair()

    def serve() -> None:
        try:
            server_context.wrap_socket(server, server_side=True).close()
        except OSError:
            server.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client, client_context.wrap_socket(client, server_hostname=host) as connection:
            shown = connection.getpeercert()
    finally:
        thread.join()
    assert shown is not None
    return {str(pair[1]) for pair in shown["subjectAltName"]}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_certificate_passes_strict_verification(tmp_path: Path, host: str) -> None:
    assert host in _handshake(create_certificates(tmp_path), host)


def test_certificate_of_another_host_or_time(tmp_path: Path) -> None:
    files = create_certificates(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _handshake(files, "127.0.0.2")
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        _handshake(create_certificates(tmp_path, timedelta(seconds=-1)), "localhost")


def test_only_the_authority_can_be_read_by_others(tmp_path: Path) -> None:
    files = create_certificates(tmp_path)
    secret = {path for path in tmp_path.iterdir() if path.stat().st_mode & 0o077 == 0}
    assert set(tmp_path.iterdir()) - secret == {files.ca}


def test_password_file() -> None:
    accounts = fill_in_passwords(
        {"ünal": Account(("prn::/scope:s,READ", "prn::/scope:s/*,NONE"), "pä:ss wörd"), "n": Account()}
    )
    lines = format_password_file(accounts).splitlines()
    assert [line.split(":")[0] for line in lines] == [SERVER_USER, "ünal", "n"]
    assert lines[1].endswith(":prn::/scope:s,READ;prn::/scope:s/*,NONE;")
    iterations, salt, key = bytes.fromhex(lines[1].split(":")[1]).decode().split(":")
    expected = hashlib.pbkdf2_hmac("sha256", "pä:ss wörd".encode(), bytes.fromhex(salt), int(iterations), 64)
    assert key == expected.hex()
    # A chosen password is slow to guess; a random one cannot be guessed at all.
    rounds = [int(bytes.fromhex(line.split(":")[1]).decode().split(":")[0]) for line in lines]
    assert rounds == [1, 5000, 1]


def test_passwords_are_random_and_hidden() -> None:
    first, second = fill_in_passwords({"u": Account()}), fill_in_passwords({"u": Account()})
    assert first["u"].password != second["u"].password
    assert str(first["u"].password) not in repr(first)


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "#a", SERVER_USER])
def test_user_names_that_the_file_cannot_hold(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="user name"):
        fill_in_passwords({name: Account()})


@pytest.mark.parametrize("entry", ["prn::*", "prn::*,WRITE", "prn::*,READ;", ",READ"])
def test_entries_that_the_server_would_drop(entry: str) -> None:
    with pytest.raises(InvalidOptionError, match="access entry"):
        fill_in_passwords({"u": Account((entry,))})
