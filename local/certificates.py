"""A certificate authority and a server certificate for a local cluster, made with `trustme` (extra `local`).

The servers need the same key twice: as PEM files and as Java key stores. The key stores are PKCS#12, which Java also
reads if a program asks for type JKS, so that no tool of the JDK is needed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark_pravega.errors import SetupError

from .directories import DEFAULT_LIFETIME, STORE_PASSWORD, Certificates, write_private

_ORGANIZATION = "pyspark-pravega local cluster"
_CLOCK_SKEW = timedelta(hours=1)


def create_certificates(directory: Path, lifetime: timedelta = DEFAULT_LIFETIME) -> Certificates:
    """Make a new authority and a server certificate for localhost and 127.0.0.1.

    The files are written to `directory`, which must exist; the server certificate is valid for `lifetime`. The
    authority's key is thrown away. The extensions are those that OpenSSL's strict verification requires (the default
    from Python 3.13 on). Raises SetupError if the package `trustme` or its `cryptography` is not installed.
    """
    try:
        import trustme
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization as s
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("cryptography", "trustme"):
            raise
        raise SetupError(
            f"A local cluster with TLS makes its certificates with the package '{missing}', which is not installed. "
            "Install the extra 'local': pip install '.[local]' in a checkout."
        ) from None
    now = datetime.now(UTC)
    authority = trustme.CA(path_length=0, organization_name=_ORGANIZATION)
    # It serves clients too: ZooKeeper inside the server asks its own clients for a certificate.
    issued = authority.issue_cert(
        "localhost",
        "127.0.0.1",
        common_name="localhost",
        organization_name=_ORGANIZATION,
        not_before=now - _CLOCK_SKEW,
        not_after=now + lifetime,
    )
    server_pem, ca_pem = issued.cert_chain_pems[0].bytes(), authority.cert_pem.bytes()
    server, ca = x509.load_pem_x509_certificate(server_pem), x509.load_pem_x509_certificate(ca_pem)
    key = s.load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    encryption = s.BestAvailableEncryption(STORE_PASSWORD.encode())
    files = Certificates(
        ca=directory / "ca.crt",
        chain=directory / "server.crt",
        key=directory / "server.key",
        key_store=directory / "server.jks",
        trust_store=directory / "trust.jks",
        store_password=directory / "store.password",
    )
    files.ca.write_bytes(ca_pem)
    # The server also uses this file as its own trust store, so the authority stands at the end.
    write_private(files.chain, server_pem + ca_pem)
    write_private(files.key, key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
    write_private(files.key_store, pkcs12.serialize_key_and_certificates(b"server", key, server, [ca], encryption))
    trusted = [pkcs12.PKCS12Certificate(ca, b"ca")]
    write_private(files.trust_store, pkcs12.serialize_java_truststore(trusted, encryption))
    # Without a line end, which would become part of the password.
    write_private(files.store_password, STORE_PASSWORD.encode())
    return files
