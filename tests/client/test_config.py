"""Addresses, credentials and trust stores: what is taken, what is refused, and that secrets stay secret."""

from __future__ import annotations

import base64
import pickle
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.credentials import (
    BasicCredentials,
    Credentials,
    TokenCredentials,
    load_credentials,
    make_authorization_header,
)
from pyspark_pravega.client.tls import (
    load_grpc_root_certificates,
    load_system_root_certificates,
    load_trust_store,
    make_ssl_context,
)
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError, PravegaError, TlsError

SECRET = "s3cr3t-w0rd"


class FromPlugIn:
    """Credentials as a user would write them."""

    def authorization(self) -> str:
        return "Bearer abc"


ready_made = FromPlugIn()
not_credentials = 7


class Failing:
    def __init__(self) -> None:
        raise OSError(f"no access with {SECRET}")


class FailingLater:
    def authorization(self) -> str:
        raise OSError(f"no access with {SECRET}")


class Careless:
    def __init__(self, value: object) -> None:
        self.value = value

    def authorization(self) -> str:
        return self.value  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("uri", "endpoints", "tls"),
    [
        ("tcp://localhost:9090", ["localhost:9090"], False),
        ("pravega://localhost:9090", ["localhost:9090"], False),
        ("tls://localhost:9090", ["localhost:9090"], True),
        ("ssl://localhost:9090", ["localhost:9090"], True),
        ("pravegas://localhost:9090/", ["localhost:9090"], True),
        ("TLS://Host.Example:1", ["Host.Example:1"], True),
        (" tcp://a:1,b_c:2, 10.0.0.1:3 ", ["a:1", "b_c:2", "10.0.0.1:3"], False),
        ("tcp://[::1]:9091,[fe80::1%eth0]", ["[::1]:9091", "[fe80::1%eth0]:9090"], False),
        ("tcp://localhost", ["localhost:9090"], False),
    ],
)
def test_addresses(uri: str, endpoints: list[str], tls: bool) -> None:
    config = ClientConfig(uri)
    assert ([str(endpoint) for endpoint in config.controller_endpoints], config.tls) == (endpoints, tls)


def test_ipv6_hosts_have_no_brackets() -> None:
    assert ClientConfig("tcp://[::1]:9091").controller_endpoints == [Endpoint("::1", 9091)]


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("localhost:9090", "must begin with one of tcp://"),
        ("http://localhost:9090", "must begin with one of tcp://"),
        ("tcp:/localhost:9090", "must begin with one of tcp://"),
        ("tcp://", "has no host"),
        ("tcp://:9090", "which is not a host name"),
        ("tcp://a:1,,b:2", "has no host"),
        ("tcp://a:1,tcp://b:2", "repeats the scheme"),
        ("tcp://a:x", "'x', which is not a port"),
        ("tcp://a:0", "'0', which is not a port"),
        ("tcp://a:65536", "'65536', which is not a port"),
        ("tcp://a:", "'', which is not a port"),
        ("tcp://a b:1", "which is not a host name"),
        ("tcp://a:1/path", "which is not a port"),
        ("tcp://[::1:9090", "not of the form \\[IPv6\\]:port"),
        ("tcp://[xyz]:9090", "not of the form \\[IPv6\\]:port"),
    ],
)
def test_bad_addresses(uri: str, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        ClientConfig(uri)


@pytest.mark.parametrize("field", ["controller_uri", "registry_uri"])
def test_passwords_in_addresses_are_refused_and_not_repeated(field: str) -> None:
    values = {"controller_uri": "tcp://localhost:9090", field: f"http://user:{SECRET}@localhost:9090"}
    with pytest.raises(InvalidOptionError, match="must not hold a user name or password") as caught:
        ClientConfig(**values)  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("uri", ["localhost:9092", "tcp://localhost:9092", "http://", "http://a:x", "http://a?b=c", ""])
def test_bad_registry_addresses(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not a valid one; an address looks like http"):
        ClientConfig("tcp://localhost:9090", registry_uri=uri)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "30", True])
@pytest.mark.parametrize("name", ["request_timeout", "retry_timeout"])
def test_bad_time_limits(name: str, value: object) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        ClientConfig("tcp://localhost:9090", **{name: value})  # type: ignore[arg-type]


def test_no_secret_is_shown_and_everything_pickles() -> None:
    for credentials in (BasicCredentials("user", SECRET), TokenCredentials("Bearer", SECRET)):
        config = ClientConfig("tls://a:1", "https://b:2", credentials, credentials, "/ca.pem", False, 1.0, 2.0)
        assert SECRET not in repr(config) + str(config) + repr(credentials) + str(credentials)
        copy = pickle.loads(pickle.dumps(config))
        assert copy == config
        assert copy.credentials.authorization() == credentials.authorization()


def test_basic_credentials() -> None:
    scheme, _, token = BasicCredentials("jörg", "pä:ss wörd").authorization().partition(" ")
    assert (scheme, base64.b64decode(token).decode()) == ("Basic", "jörg:pä:ss wörd")


@pytest.mark.parametrize("name", ["", "a:b"])
def test_bad_user_names(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="user name") as caught:
        BasicCredentials(name, SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("method", "token"), [("", "x"), ("a b", "x"), ("Bearer", ""), ("Bearer", f"{SECRET}\n")])
def test_bad_tokens(method: str, token: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        TokenCredentials(method, token)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("token", [SECRET, "!!!", base64.b64encode(SECRET.encode()).decode()])
def test_a_basic_token_that_is_no_base64_of_user_and_password_is_named_as_such(token: str) -> None:
    with pytest.raises(InvalidOptionError, match="token .* 'Basic' is not base64 of user:password") as caught:
        TokenCredentials("Basic", token)
    assert token not in str(caught.value)


def test_a_basic_token_may_lack_its_padding() -> None:
    token = base64.b64encode(b"user:password1").decode()
    assert token.endswith("=")
    assert TokenCredentials("Basic", token.rstrip("=")).authorization() == f"Basic {token.rstrip('=')}"


@pytest.mark.parametrize("attribute", ["FromPlugIn", "ready_made"])
def test_plug_ins(attribute: str, plug_in_module: str) -> None:
    credentials = load_credentials(f"{plug_in_module}:{attribute}")
    assert isinstance(credentials, Credentials)
    assert make_authorization_header(credentials) == "Bearer abc"


@pytest.fixture
def plug_in_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """This module under a name by which it can be imported."""
    monkeypatch.setitem(sys.modules, "credentials_plug_in", sys.modules[__name__])
    return "credentials_plug_in"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no_colon", "package.module:attribute"),
        (":x", "package.module:attribute"),
        ("no_such_module:x", "cannot be imported"),
        ("credentials_plug_in:absent", "there is no 'absent'"),
        ("credentials_plug_in:not_credentials", "no method authorization"),
        ("credentials_plug_in:Failing", "could not be created"),
        ("credentials_plug_in:Path", "no method authorization"),
    ],
)
def test_bad_plug_ins(reference: str, reason: str, plug_in_module: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason) as caught:
        load_credentials(reference)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "credentials", [Careless(None), Careless(SECRET), Careless(f"Bearer {SECRET}\n"), Careless("")]
)
def test_values_that_are_no_header_are_refused(credentials: Credentials) -> None:
    with pytest.raises(AuthenticationError, match="no valid authorization header") as caught:
        make_authorization_header(credentials)
    assert SECRET not in str(caught.value)


def test_a_failing_plug_in_is_an_authentication_error() -> None:
    with pytest.raises(AuthenticationError, match="FailingLater could not give a token") as caught:
        make_authorization_header(FailingLater())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xfe\xed\xfe\xed\x00\x00", "Java key store"),
        (b"hello", "no PEM certificate"),
        (b"", "no PEM certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_bad_trust_stores(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    config = ClientConfig("tls://localhost:1", trust_store=str(path))
    for use in (make_ssl_context, load_grpc_root_certificates):
        with pytest.raises(InvalidOptionError, match=reason) as caught:
            use(config)
        assert str(path) in str(caught.value)


def test_a_trust_store_replaces_the_system_s(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    first, second = trustme.CA(), trustme.CA()
    pem = "# gemäß Vorschrift\n".encode("latin-1") + first.cert_pem.bytes() + b"\n" + second.cert_pem.bytes()
    path.write_bytes(pem)
    config = ClientConfig("tls://localhost:1", trust_store=str(path), validate_hostname=False)
    context = make_ssl_context(config)
    assert len(context.get_ca_certs()) == 2
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert (load_trust_store(config) or "").encode() == load_grpc_root_certificates(config)
    assert load_grpc_root_certificates(config).count(b"BEGIN CERTIFICATE") == 2


def test_without_a_trust_store_grpc_trusts_what_ssl_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClientConfig("tls://localhost:1")
    by_file, by_directory = trustme.CA(), trustme.CA()
    file, directory = tmp_path / "ca.pem", tmp_path / "certs"
    by_file.cert_pem.write_to_path(str(file))
    directory.mkdir()
    by_directory.cert_pem.write_to_path(str(directory / "0a1b2c3d.0"))
    (directory / "dangling.0").symlink_to(tmp_path / "nothing")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(directory))
    found = load_grpc_root_certificates(config)
    assert found == load_system_root_certificates()
    ders = {
        ssl.PEM_cert_to_DER_cert(part + "-----END CERTIFICATE-----")
        for part in found.decode().replace("\n-----BEGIN", "-----BEGIN").split("-----END CERTIFICATE-----")[:-1]
    }
    assert ders == {ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode()) for ca in (by_file, by_directory)}


def test_a_machine_without_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with pytest.raises(TlsError, match="has no CA certificates"):
        load_grpc_root_certificates(ClientConfig("tls://localhost:1"))


@pytest.mark.slow
def test_importing_the_client_loads_no_network_library() -> None:
    program = (
        "import sys, pyspark_pravega.client as client; client.connect(client.ClientConfig('tcp://localhost:1')); "
        "print([name for name in ('grpc', 'google.protobuf', 'httpx', 'numpy', 'pyarrow') "
        "if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_errors_pickle() -> None:
    error = pickle.loads(pickle.dumps(TlsError("why")))
    assert isinstance(error, PravegaError)
    assert str(error) == "[PRAVEGA_TLS_FAILED] why"


def test_errors_of_confluents_registry_name_its_option() -> None:
    login = BasicCredentials("key", "s3cret")
    with pytest.raises(InvalidOptionError, match="the 'confluent.registry-uri' address 'ftp://r' is not a valid one"):
        ClientConfig("tcp://localhost", confluent_uri="ftp://r")
    for secret in ("?token=s3cret", "#s3cret"):
        with pytest.raises(InvalidOptionError, match="'http://r/x' is not a valid one.*without query") as caught:
            ClientConfig("tcp://localhost", confluent_uri=f"http://r/x{secret}")
        assert "s3cret" not in str(caught.value)
    with pytest.raises(
        InvalidOptionError, match="the 'confluent.registry-uri' address 'http://r' would send the login"
    ):
        ClientConfig("tls://localhost", confluent_uri="http://r", confluent_credentials=login)
    with pytest.raises(InvalidOptionError, match="'confluent.username' needs 'confluent.registry-uri'") as caught:
        ClientConfig("tcp://localhost", confluent_credentials=login)
    assert "s3cret" not in str(caught.value)
    config = ClientConfig("tls://localhost", confluent_uri="https://r", confluent_credentials=login, credentials=login)
    other = config.at_confluent()
    assert (other.registry_uri, other.effective_registry_credentials, other.credentials) == ("https://r", login, None)
