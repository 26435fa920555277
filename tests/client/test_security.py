"""Who may do what, and what a wrong password, certificate or scheme looks like: the controller's part.

On a local cluster with TLS and the users admin (everything), writer (writes existing streams), reader (reads) and
nobody (nothing). Every failure must have its own class, name what to do, come without a pointless wait, and hold no
secret.
"""

from __future__ import annotations

import base64
import datetime
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.credentials import BasicCredentials, TokenCredentials
from pyspark_pravega.client.segments.delegation import REFRESH_AT, DelegationTokens, compute_refresh_time
from pyspark_pravega.client.stream import Access, Stream, StreamConfiguration, make_key_value_table_stream
from pyspark_pravega.client.tls import make_connection_error, make_ssl_context
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import (
    AuthenticationError,
    PermissionDeniedError,
    PravegaError,
    ServerTimeoutError,
    ServerUnavailableError,
    TlsError,
)

WRONG_PASSWORD = "wr0ng-p4ssword"

ConfigOf = Callable[..., ClientConfig]


@pytest.fixture
def connect_as(secure_client_config: ConfigOf) -> Iterator[Callable[[str], Controller]]:
    """Controllers by the name of a user, closed afterwards."""
    made: list[Controller] = []

    def connect(user: str) -> Controller:
        made.append(Controller(secure_client_config(user)))
        return made[-1]

    yield connect
    for controller in made:
        controller.close()


@pytest.fixture
def stream(connect_as: Callable[[str], Controller], secure_scope: str) -> Stream:
    made = Stream(secure_scope, "data")
    connect_as("admin").create_stream(made, StreamConfiguration())
    return made


@pytest.fixture(autouse=True)
def no_secret_in_the_log(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[pytest.LogCaptureFixture]:
    """All tests here run with the most talkative log and look for passwords in it afterwards."""
    caplog.set_level(logging.DEBUG)
    yield caplog
    for secret in secrets(request):
        assert secret not in caplog.text


def secrets(request: pytest.FixtureRequest) -> list[str]:
    """The passwords of all users and the header values made of them."""
    passwords = {"someone": WRONG_PASSWORD}
    if "secure_cluster" in request.fixturenames:
        passwords |= request.getfixturevalue("secure_cluster").users
    headers = [base64.b64encode(f"{user}:{password}".encode()).decode() for user, password in passwords.items()]
    return [*passwords.values(), *headers]


@pytest.fixture
def failure(request: pytest.FixtureRequest) -> Callable[..., PravegaError]:
    """Runs a call that must fail with the given class, and looks for secrets in the whole chain of errors."""

    def run(kind: type[PravegaError], call: Callable[[], object], *words: str) -> PravegaError:
        with pytest.raises(kind) as caught:
            call()
        error: BaseException | None = caught.value
        while error is not None:
            assert not [secret for secret in secrets(request) if secret in f"{error} {error!r}"]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        assert not [word for word in words if word not in str(caught.value)], str(caught.value)
        return caught.value

    return run


# Authentication


def test_no_credentials(secure_client_config: ConfigOf, failure: Callable[..., PravegaError]) -> None:
    with Controller(replace(secure_client_config(), credentials=None)) as controller:
        failure(AuthenticationError, controller.list_scopes, "list the scopes", "none are given")


@pytest.mark.parametrize("user", ["admin", "unknown"])
def test_wrong_password_or_user(
    secure_client_config: ConfigOf, failure: Callable[..., PravegaError], user: str
) -> None:
    wrong = BasicCredentials(user, WRONG_PASSWORD)
    with Controller(replace(secure_client_config(), credentials=wrong)) as controller:
        failure(AuthenticationError, controller.list_scopes, "refused the credentials")


def test_a_scheme_the_server_does_not_know(
    secure_client_config: ConfigOf, failure: Callable[..., PravegaError]
) -> None:
    unknown = TokenCredentials("Bearer", WRONG_PASSWORD)
    with Controller(replace(secure_client_config(), credentials=unknown)) as controller:
        failure(AuthenticationError, controller.list_scopes)


def test_a_token_the_server_cannot_read(secure_client_config: ConfigOf, failure: Callable[..., PravegaError]) -> None:
    class Garbled:
        def authorization(self) -> str:
            return "Basic !!!"

    with Controller(replace(secure_client_config(), credentials=Garbled())) as controller:
        failure(AuthenticationError, controller.list_scopes, "could not read the credentials")


def test_credentials_are_asked_for_every_call(secure_client_config: ConfigOf, secure_cluster: object) -> None:
    class Counting:
        calls = 0

        def authorization(self) -> str:
            self.calls += 1
            credentials = secure_client_config().credentials
            assert credentials is not None
            return credentials.authorization()

    counting = Counting()
    with Controller(replace(secure_client_config(), credentials=counting)) as controller:
        controller.scope_exists("a")
        controller.scope_exists("b")
    assert counting.calls == 2


# Rights


def test_a_reader_reads(connect_as: Callable[[str], Controller], stream: Stream) -> None:
    reader = connect_as("reader")
    assert stream.scope in reader.list_scopes()
    assert stream.name in reader.list_streams(stream.scope)
    assert reader.scope_exists(stream.scope)
    assert reader.stream_exists(stream)
    assert reader.stream_configuration(stream) == StreamConfiguration()
    head = reader.head(stream)
    assert [segment.segment_id for segment in reader.current_segments(stream)] == list(head.positions)
    segments, token = reader.list_segments_between(head, None)
    assert (segments, expires(token)) == ([0], True)
    assert reader.successors(stream, 0) == {}
    assert reader.is_stream_cut_valid(head)
    assert reader.segment_location(stream, 0).host not in ("", "0.0.0.0")
    assert reader.delegation_token(stream, Access.READ)


def test_a_reader_does_not_write(
    connect_as: Callable[[str], Controller], stream: Stream, failure: Callable[..., PravegaError]
) -> None:
    reader = connect_as("reader")
    cut = reader.head(stream)
    on_stream = f"READ_UPDATE on 'prn::/scope:{stream.scope}/stream:data'"
    on_scope = f"READ_UPDATE on 'prn::/scope:{stream.scope}'"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: reader.create_transaction(stream, 10_000), on_stream),
        (lambda: reader.update_stream(stream, StreamConfiguration()), on_stream),
        (lambda: reader.truncate_stream(cut), on_stream),
        (lambda: reader.scale_stream(stream, [0], [(0.0, 1.0)]), on_stream),
        (lambda: reader.seal_stream(stream), on_stream),
        (lambda: reader.delete_stream(stream), on_stream),
        (lambda: reader.epoch_segments(stream, 0), on_stream),
        (lambda: reader.delegation_token(stream, Access.WRITE), on_stream),
        (lambda: reader.delegation_token(stream, Access.READ_WRITE), on_stream),
        (lambda: reader.create_stream(Stream(stream.scope, "more"), StreamConfiguration()), on_scope),
        (lambda: reader.create_key_value_table(stream.scope, "table", 1, 8), on_scope),
        (lambda: reader.create_scope("more"), "READ_UPDATE on 'prn::/'"),
    ]
    for call, missing in calls:
        failure(PermissionDeniedError, call, missing)


def test_a_writer_writes_what_is_there(
    connect_as: Callable[[str], Controller], stream: Stream, failure: Callable[..., PravegaError]
) -> None:
    writer = connect_as("writer")
    transaction = Transaction.begin(writer, stream, 10_000)
    assert expires(transaction.token)
    transaction.keep_alive()
    transaction.commit()
    assert writer.delegation_token(stream, Access.WRITE)
    failure(
        PermissionDeniedError,
        lambda: writer.create_stream(Stream(stream.scope, "more"), StreamConfiguration()),
        "create stream",
        f"'prn::/scope:{stream.scope}'",
    )


def test_nobody_may_do_nothing(
    connect_as: Callable[[str], Controller], stream: Stream, failure: Callable[..., PravegaError]
) -> None:
    nobody = connect_as("nobody")
    on_stream = f"READ on 'prn::/scope:{stream.scope}/stream:data'"
    calls: list[tuple[Callable[[], object], str]] = [
        (nobody.list_scopes, "READ on 'prn::/'"),
        (lambda: nobody.list_streams(stream.scope), f"READ on 'prn::/scope:{stream.scope}'"),
        (lambda: nobody.stream_configuration(stream), on_stream),
        (lambda: nobody.head(stream), on_stream),
        (lambda: nobody.delegation_token(stream, Access.READ), on_stream),
    ]
    for call, missing in calls:
        failure(PermissionDeniedError, call, missing)


def test_key_value_tables_are_read_under_the_name_of_their_segments(
    connect_as: Callable[[str], Controller], secure_scope: str, failure: Callable[..., PravegaError]
) -> None:
    connect_as("admin").create_key_value_table(secure_scope, "table", 2, 8)
    reader = connect_as("reader")
    pretended = make_key_value_table_stream(secure_scope, "table")
    assert reader.key_value_table_configuration(secure_scope, "table").partitions == 2
    assert reader.segment_location(pretended, 0).port > 0
    assert reader.delegation_token(pretended, Access.READ)
    failure(
        PermissionDeniedError,
        lambda: reader.delete_key_value_table(secure_scope, "table"),
        f"READ_UPDATE on 'prn::/scope:{secure_scope}/key-value-table:table'",
    )


# Delegation tokens


class CountingSource:
    """A controller that counts how often it is asked for a token."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.asked = 0

    def delegation_token(self, stream: Stream, access: Access) -> str:
        self.asked += 1
        return self.controller.delegation_token(stream, access)


def test_tokens_are_kept_until_they_are_refused(connect_as: Callable[[str], Controller], stream: Stream) -> None:
    source = CountingSource(connect_as("writer"))
    tokens = DelegationTokens(source)
    token = tokens.token(stream, Access.READ)
    assert expires(token)
    assert compute_refresh_time(token, time.time()) > time.time()
    assert tokens.token(stream, Access.READ) == token
    assert source.asked == 1
    assert tokens.token(stream, Access.WRITE) != token
    assert source.asked == 2
    tokens.invalidate(stream, Access.READ)
    tokens.token(stream, Access.READ)
    assert source.asked == 3
    assert token not in repr(tokens)


def test_a_crowd_asks_for_a_token_once(connect_as: Callable[[str], Controller], stream: Stream) -> None:
    source = CountingSource(connect_as("reader"))
    tokens = DelegationTokens(source)
    threads = [threading.Thread(target=tokens.token, args=(stream, Access.READ)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.asked == 1


def test_a_token_from_elsewhere_is_used(connect_as: Callable[[str], Controller], stream: Stream) -> None:
    source = CountingSource(connect_as("reader"))
    tokens = DelegationTokens(source)
    _, token = source.controller.list_segments_between(source.controller.head(stream), None)
    tokens.seed(stream, Access.READ, token)
    assert tokens.token(stream, Access.READ) == token
    tokens.invalidate(stream, Access.READ)
    tokens.seed(stream, Access.READ, jwt(time.time() - 590, time.time() + 10))
    tokens.token(stream, Access.READ)
    assert source.asked == 1


def expires(token: str) -> bool:
    """Whether a token says when it expires."""
    return compute_refresh_time(token, time.time()) < float("inf")


def jwt(issued: float | None, expires: float | None) -> str:
    claims = ", ".join(
        f'"{name}": {int(value)}' for name, value in (("iat", issued), ("exp", expires)) if value is not None
    )
    return f"e30.{base64.urlsafe_b64encode(f'{{{claims}}}'.encode()).decode().rstrip('=')}.sig"


def test_when_tokens_are_renewed() -> None:
    now = 1_000_000.0
    assert compute_refresh_time(jwt(now, now + 600), now) == now + REFRESH_AT * 600
    # One that has spent 100 s on its way.
    assert compute_refresh_time(jwt(now - 100, now + 500), now) == now + REFRESH_AT * 600 - 100
    # The server's clock is an hour ahead, or an hour behind: its token is not of age, or due at once.
    assert compute_refresh_time(jwt(now + 3600, now + 4200), now) == now + REFRESH_AT * 600
    assert compute_refresh_time(jwt(now - 3600, now - 3000), now) < now
    for endless in ("", "no.jwt", "a.!!.c", jwt(now, None), "e30.W10.sig"):
        assert compute_refresh_time(endless, now) == float("inf")


# TLS


@pytest.fixture
def port(secure_cluster: object, secure_client_config: ConfigOf) -> int:
    return secure_client_config().controller_endpoints[0].port


@pytest.fixture
def other_ca(tmp_path: Path) -> str:
    path = tmp_path / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return str(path)


def test_wrong_ca(secure_client_config: ConfigOf, other_ca: str, failure: Callable[..., PravegaError]) -> None:
    with Controller(replace(secure_client_config(), trust_store=other_ca)) as controller:
        failure(TlsError, controller.list_scopes, "is not trusted", "give the CA")


def test_no_trust_store(secure_client_config: ConfigOf, failure: Callable[..., PravegaError]) -> None:
    with Controller(replace(secure_client_config(), trust_store=None)) as controller:
        failure(TlsError, controller.list_scopes, "is not trusted", "give the CA")


def test_the_system_s_trust_store_is_used(
    secure_client_config: ConfigOf, secure_cluster: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = secure_client_config()
    assert config.trust_store is not None
    monkeypatch.setenv("SSL_CERT_FILE", config.trust_store)
    with Controller(replace(config, trust_store=None)) as controller:
        assert "_system" in controller.list_scopes()


@pytest.fixture
def by_address(secure_client_config: ConfigOf, port: int) -> ClientConfig:
    """The secure cluster under an address that does not stand in its certificate."""
    try:
        socket.create_connection(("127.0.0.2", port), timeout=10).close()
    except OSError:
        pytest.skip("this machine has no second loopback address")
    return replace(secure_client_config(), controller_uri=f"tls://127.0.0.2:{port}")


def test_host_name_mismatch(by_address: ClientConfig, failure: Callable[..., PravegaError]) -> None:
    with Controller(by_address) as controller:
        failure(TlsError, controller.list_scopes, "not made out for '127.0.0.2'", "turn the host name check off")


def test_host_name_mismatch_with_the_check_off(by_address: ClientConfig) -> None:
    with Controller(replace(by_address, validate_hostname=False)) as controller:
        assert "_system" in controller.list_scopes()


def test_without_the_host_name_check_the_ca_still_counts(
    by_address: ClientConfig, other_ca: str, failure: Callable[..., PravegaError]
) -> None:
    with Controller(replace(by_address, validate_hostname=False, trust_store=other_ca)) as controller:
        failure(TlsError, controller.list_scopes, "is not trusted")


def test_a_plain_client_at_a_tls_server(
    secure_client_config: ConfigOf, port: int, failure: Callable[..., PravegaError]
) -> None:
    with Controller(replace(secure_client_config(), controller_uri=f"tcp://localhost:{port}")) as controller:
        failure(TlsError, controller.list_scopes, "speaks TLS", "tls://")


def test_a_tls_client_at_a_plain_server(
    client_config: ClientConfig, other_ca: str, failure: Callable[..., PravegaError]
) -> None:
    if client_config.tls:
        pytest.skip("the cluster of this run has TLS")
    for check in (True, False):
        config = replace(
            client_config,
            controller_uri=f"tls://{client_config.controller_endpoints[0]}",
            trust_store=other_ca,
            validate_hostname=check,
        )
        with Controller(config) as controller:
            failure(TlsError, controller.list_scopes, "does not speak TLS", "tcp://")


def test_nothing_listening(secure_client_config: ConfigOf, failure: Callable[..., PravegaError]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        uri = f"tls://127.0.0.1:{taken.getsockname()[1]}"
        for check in (True, False):
            config = replace(secure_client_config(), controller_uri=uri, retry_timeout=0.5, validate_hostname=check)
            with Controller(config) as controller:
                failure(
                    ServerUnavailableError, controller.list_scopes, "cannot be reached" if check else "cannot reach"
                )


# Certificates that a Pravega server does not start with, or that it would take minutes to run out: the handshake alone.


class Handshakes:
    """A server that greets with one certificate and hangs up."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["h2"])
        certificate.configure_cert(self._context)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint("127.0.0.1", self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            # The client's refusal of the certificate ends the handshake with an error.
            with connection:
                try:
                    self._context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    continue

    def close(self) -> None:
        # Wakes the thread up, which a mere close does not.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(ca: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def handshakes() -> Iterator[Callable[[trustme.LeafCert], Endpoint]]:
    servers: list[Handshakes] = []

    def start(certificate: trustme.LeafCert) -> Endpoint:
        servers.append(Handshakes(certificate))
        return servers[-1].endpoint

    yield start
    for server in servers:
        server.close()


def socket_failure(config: ClientConfig) -> PravegaError:
    """What connecting to the server with a socket ends in, as for a segment store."""
    endpoint = config.controller_endpoints[0]
    with pytest.raises(OSError) as caught, socket.create_connection((endpoint.host, endpoint.port), 10) as plain:
        make_ssl_context(config).wrap_socket(plain, server_hostname=endpoint.host)
    return make_connection_error(caught.value, endpoint)


@pytest.mark.parametrize(
    ("names", "expired", "words"),
    [
        (["127.0.0.1"], True, "is not valid at this time"),
        (["other.example"], False, "not made out for '127.0.0.1'"),
    ],
)
def test_bad_certificates_are_the_same_to_grpc_and_to_sockets(
    ca: trustme.CA,
    ca_file: str,
    handshakes: Callable[[trustme.LeafCert], Endpoint],
    failure: Callable[..., PravegaError],
    names: list[str],
    expired: bool,
    words: str,
) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    endpoint = handshakes(ca.issue_cert(*names, not_after=yesterday if expired else None))
    config = ClientConfig(f"tls://{endpoint}", trust_store=ca_file, retry_timeout=5.0)
    with Controller(config) as controller:
        failure(TlsError, controller.list_scopes, words)
    error = socket_failure(config)
    assert isinstance(error, TlsError)
    assert words in str(error)


def test_an_unknown_ca_is_the_same_to_grpc_and_to_sockets(
    ca: trustme.CA,
    other_ca: str,
    handshakes: Callable[[trustme.LeafCert], Endpoint],
    failure: Callable[..., PravegaError],
) -> None:
    config = ClientConfig(f"tls://{handshakes(ca.issue_cert('127.0.0.1'))}", trust_store=other_ca)
    with Controller(config) as controller:
        failure(TlsError, controller.list_scopes, "is not trusted")
    error = socket_failure(config)
    assert isinstance(error, TlsError)
    assert "is not trusted" in str(error)


@pytest.mark.parametrize("names", [["*.example.org"], ["10.1.2.3"], ["a.example", "b.example"]])
def test_any_trusted_certificate_will_do_without_the_host_name_check(
    ca: trustme.CA, ca_file: str, handshakes: Callable[[trustme.LeafCert], Endpoint], names: list[str]
) -> None:
    """The server hangs up after the handshake, so getting as far as that is all there is to see."""
    endpoint = handshakes(ca.issue_cert(*names))
    config = ClientConfig(
        f"tls://{endpoint}", trust_store=ca_file, validate_hostname=False, request_timeout=2.0, retry_timeout=0.5
    )
    with Controller(config) as controller, pytest.raises((ServerUnavailableError, ServerTimeoutError)):
        controller.list_scopes()


def test_the_server_s_own_certificate_as_trust_store(
    ca: trustme.CA, tmp_path: Path, handshakes: Callable[[trustme.LeafCert], Endpoint]
) -> None:
    certificate = ca.issue_cert("127.0.0.1")
    path = tmp_path / "server.pem"
    certificate.cert_chain_pems[0].write_to_path(str(path))
    endpoint = handshakes(certificate)
    config = ClientConfig(f"tls://{endpoint}", trust_store=str(path), request_timeout=2.0, retry_timeout=0.5)
    with Controller(config) as controller, pytest.raises((ServerUnavailableError, ServerTimeoutError)):
        controller.list_scopes()
    with socket.create_connection((endpoint.host, endpoint.port), 10) as plain:
        make_ssl_context(config).wrap_socket(plain, server_hostname=endpoint.host).close()
