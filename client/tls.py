"""TLS: the same trusted CAs and host name check for gRPC and for sockets, and clear errors for failures.

gRPC brings its own CAs, ignores SSL_CERT_FILE and cannot turn the host name check off; `ssl` differs in all three.
Here the same `ClientConfig` governs both.
"""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import Any, NoReturn

from pyspark_pravega import errors

from .config import ClientConfig, Endpoint

_PROBE_SECONDS = 2.0

# OpenSSL's X509_V_ERR_*: what `SSLCertVerificationError.verify_code` holds.
_EXPIRED = 10
_NOT_YET_VALID = 9
_HOST_NAME_MISMATCHES = (62, 64)

_UNTRUSTED = (
    "the certificate of {endpoint} is not trusted ({detail}); give the CA that issued it as trust store (a PEM file)"
)
_OUT_OF_DATE = "the certificate of {endpoint} is not valid at this time ({detail}); renew it, or check the clocks"
_OTHER_HOST = (
    "the certificate of {endpoint} is not made out for '{endpoint.host}'; connect by a name in the certificate, or "
    "turn the host name check off (the CA is still checked)"
)
_NOT_TLS = "the server at {endpoint} does not speak TLS; use a plain address (tcp://) or turn TLS on there"
"""The sentences of errors that `ssl` and gRPC report in different ways."""


def _make_tls_error(sentence: str, endpoint: Endpoint, detail: str = "") -> errors.TlsError:
    return errors.TlsError(sentence.format(endpoint=endpoint, detail=detail))


def load_trust_store(config: ClientConfig) -> str | None:
    """Return the checked certificates of the trust store; None if the system's CAs are to be used.

    They are checked up front because gRPC would only say "Failed to create security handshaker" at the first call.
    Raises InvalidOptionError, which names the file.
    """
    path = config.trust_store
    if path is None:
        return None

    def raise_error(reason: str) -> NoReturn:
        raise errors.InvalidOptionError(
            f"the trust store '{path}' {reason}; it must be a file with PEM certificates "
            "(-----BEGIN CERTIFICATE-----), present on the driver and on every executor"
        ) from None

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise_error(f"cannot be read ({error.strerror})")
    if data[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        raise_error("is a Java key store; export its certificates with 'keytool -exportcert -rfc'")
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise_error("holds no PEM certificate")
    text = "\n".join(_split_certificates(data.decode("latin-1")))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise_error(f"holds a certificate that cannot be read ({error})")
    return text


def _split_certificates(pem: str) -> list[str]:
    # Comments between certificates may be in any encoding, but `ssl` requires ASCII.
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)


def make_ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the context for sockets to segment stores and the schema registry."""
    pem = load_trust_store(config)
    context = ssl.create_default_context(cadata=pem)
    context.check_hostname = config.validate_hostname
    # As gRPC does: a trust store may hold the server's own certificate instead of a CA, and certificates may lack key
    # identifiers (those of Pravega's samples do), which Python 3.13 refuses by default.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def load_grpc_root_certificates(config: ClientConfig) -> bytes:
    """Return `make_ssl_context`'s CAs for gRPC, as PEM. Raises TlsError if neither machine nor trust store has any."""
    pem = load_trust_store(config)
    if pem is not None:
        return pem.encode("ascii")
    system = load_system_root_certificates()
    if not system:
        raise errors.TlsError(
            "this machine has no CA certificates (SSL_CERT_FILE and SSL_CERT_DIR are empty too), so no server can be "
            "trusted; give the server's CA as trust store"
        )
    return system


def load_system_root_certificates() -> bytes:
    """Return the CAs that `ssl.create_default_context()` trusts, as PEM, with SSL_CERT_FILE and SSL_CERT_DIR."""
    every_certificate = dict.fromkeys(ssl.create_default_context().get_ca_certs(binary_form=True))
    # OpenSSL reads a directory of CAs only when it verifies, so the context above does not list those.
    directory = ssl.get_default_verify_paths().capath
    if directory is not None:
        for path in sorted(Path(directory).glob("*.[0-9]")):
            try:
                text = path.read_text("latin-1")
                certificates = [ssl.PEM_cert_to_DER_cert(block) for block in _split_certificates(text)]
            except (OSError, ValueError):
                # OpenSSL skips unreadable entries (dangling links) of such a directory too.
                continue
            every_certificate.update(dict.fromkeys(certificates))
    return "".join(ssl.DER_cert_to_PEM_cert(der) for der in every_certificate).encode("ascii")


def find_server_name_override(config: ClientConfig, endpoint: Endpoint) -> str | None:
    """Return the name that gRPC should expect in the certificate; None for the host's own name.

    gRPC always checks the name. With `validate_hostname=False` this fetches the certificate first (and checks its CA),
    and returns the first name in it.
    """
    if config.validate_hostname:
        return None
    try:
        address = (endpoint.host, endpoint.port)
        with (
            socket.create_connection(address, timeout=config.request_timeout) as connection,
            make_ssl_context(config).wrap_socket(connection, server_hostname=endpoint.host) as secured,
        ):
            # (kind, value) pairs as the `ssl` module documents them; the types it declares are too wide.
            certificate: dict[str, Any] = secured.getpeercert() or {}
    except OSError as error:
        raise make_connection_error(error, endpoint) from error
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    names += [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    if not names:
        raise errors.TlsError(
            f"the certificate of {endpoint} names no host; the server needs one with a subjectAltName"
        )
    # Any name that the wildcard covers will do.
    return re.sub(r"^\*\.", "any.", names[0])


def make_connection_error(
    error: OSError, endpoint: Endpoint, kind: str = "the server", advice: str = ""
) -> errors.PravegaError:
    """Make the error for a failed connection or handshake with a server, which messages call `kind`.

    TlsError is final; ServerUnavailableError, with `advice` behind it, and ServerTimeoutError may pass.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        code = getattr(error, "verify_code", 0)
        if code in _HOST_NAME_MISMATCHES:
            return _make_tls_error(_OTHER_HOST, endpoint)
        sentence = _OUT_OF_DATE if code in (_EXPIRED, _NOT_YET_VALID) else _UNTRUSTED
        return _make_tls_error(sentence, endpoint, error.verify_message)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return errors.ServerUnavailableError(f"{kind} at {endpoint} closed the TLS connection")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"):
            return _make_tls_error(_NOT_TLS, endpoint)
        return errors.TlsError(f"the TLS handshake with {endpoint} failed ({reason})")
    if isinstance(error, TimeoutError):
        # A plain segment store keeps silent when it is greeted with TLS, so it need not be slow.
        return errors.ServerTimeoutError(
            f"the server at {endpoint} did not answer in time; is it up, and does it speak the protocol of the "
            "address (tls:// or tcp://)?"
        )
    why = "refused" if isinstance(error, ConnectionRefusedError) else None
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        why = reason = "unknown host"
    unavailable = errors.ServerUnavailableError(
        f"cannot reach {kind} at {endpoint} ({reason}); check the address, and that the server runs{advice}"
    )
    unavailable.unreached = None if why is None else errors.Unreached(f"{kind} at {endpoint}", why)
    return unavailable


def speak_tls(connection: socket.socket, endpoint: Endpoint) -> ssl.SSLSocket:
    """Begin TLS with a server that is not trusted, to see what it is. Raises OSError. Nothing secret may be sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(connection, server_hostname=endpoint.host)


def is_tls(endpoint: Endpoint) -> bool | None:
    """Return whether a server answers a TLS greeting; None if it accepts no connection. Nothing secret is sent."""
    try:
        connection = socket.create_connection((endpoint.host, endpoint.port), timeout=_PROBE_SECONDS)
    except OSError:
        return None
    try:
        with connection, speak_tls(connection, endpoint):
            return True
    except OSError:
        return False


# gRPC says only in the text of UNAVAILABLE that TLS failed, and how.
_GRPC_FAILURES = {
    "Hostname Verification": _OTHER_HOST,
    "is not in peer certificate": _OTHER_HOST,  # before 1.76
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "certificate has expired": _OUT_OF_DATE,
    "certificate is not yet valid": _OUT_OF_DATE,
    "CERTIFICATE_VERIFY_FAILED": _UNTRUSTED,
}
_GRPC_VERIFICATION = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]*)")
_GRPC_OTHER_FAILURES = ("SSL_ERROR_SSL", "security handshaker")


def find_grpc_tls_error(details: str, endpoint: Endpoint) -> errors.TlsError | None:
    """Return the error for the TLS failure behind gRPC's UNAVAILABLE, or None without one."""
    for mark, sentence in _GRPC_FAILURES.items():
        if mark in details:
            match = _GRPC_VERIFICATION.search(details)
            return _make_tls_error(sentence, endpoint, match.group(1).strip() if match else "verification failed")
    if any(mark in details for mark in _GRPC_OTHER_FAILURES):
        return errors.TlsError(f"the TLS handshake with {endpoint} failed ({details[:200]})")
    return None
