"""A certificate authority and a server certificate for a local cluster.

The servers need the same key twice: as PEM files and as Java key stores. The key stores are PKCS#12, which Java also
reads if a program asks for type JKS, so that no tool of the JDK is needed.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark_pravega.errors import SetupError

from .directories import DEFAULT_LIFETIME, Certificates


def create_certificates(directory: Path, lifetime: timedelta = DEFAULT_LIFETIME) -> Certificates:
    """Make a new authority and a server certificate for localhost and 127.0.0.1.

    The files are written to `directory`, which must exist; the server certificate is valid for `lifetime`. The
    authority's key is thrown away. The extensions are those that OpenSSL's strict verification requires (the default
    from Python 3.13 on). Raises SetupError if the package `cryptography` is not installed.
    """
    try:
        from .certificate_authority import write_certificates
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise SetupError(
            "A local cluster with TLS makes its certificates with the package 'cryptography', which is not installed. "
            "Install the extra 'local': pip install '.[local]' in a checkout."
        ) from None
    files = Certificates(
        ca=directory / "ca.crt",
        chain=directory / "server.crt",
        key=directory / "server.key",
        key_store=directory / "server.jks",
        trust_store=directory / "trust.jks",
        store_password=directory / "store.password",
    )
    write_certificates(files, lifetime)
    return files
