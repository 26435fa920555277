"""Options of the connection to the servers, of a catalog, and of the stream that a query names."""

from __future__ import annotations

from ..names_elsewhere import BY_OPTIONS
from ..option_types import (
    BOOLEAN,
    CONNECTION,
    DURATION,
    LAKE_PROPERTIES,
    PLUG_IN,
    PLUG_IN_OR_FILE,
    QUERY,
    SCOPES,
    START,
    TEXT,
    URI,
    Option,
    SettableAs,
    between,
    one_of,
    optional,
)

_LOCAL = (
    "To try it without servers of your own: 'pyspark-pravega local start' runs a Pravega on this machine, and "
    "'eval \"$(pyspark-pravega local env)\"' sets its addresses."
)
CONTROLLER_URI = Option(
    "controller-uri", optional(URI), CONNECTION, env="PRAVEGA_CONTROLLER_URI", connection=True, hint=_LOCAL
)
"""Pravega's controller: `tcp://host:9090`, or `tls://host:9090` for TLS to the controller and the segment stores.
Several controllers: `tcp://a:9090,b:9090`."""
SCHEMA_REGISTRY_URI = Option(
    "schema-registry-uri", optional(URI), CONNECTION, env="PRAVEGA_SCHEMA_REGISTRY_URI", connection=True, hint=_LOCAL
)
"""Pravega's schema registry: `http://host:9092` or `https://host:9092`. Without it, only formats that keep no columns
there can be used, such as `raw`, `text` and `csv`."""
CONFLUENT_URI = Option("confluent.registry-uri", optional(URI), START, connection=True)
"""Confluent's schema registry, or another with its REST API (Apicurio: `https://host/apis/ccompat/v7`). Tables with
`framing`=`confluent` read the schemas of their events there, and `security.trust-store` says which one to trust."""
CONFLUENT_USERNAME = Option("confluent.username", optional(TEXT), START, connection=True)
"""User name, or API key, for that registry; needs `confluent.password`. It never gets the login for Pravega."""
CONFLUENT_PASSWORD = Option("confluent.password", optional(TEXT), START, secret=True, connection=True)
"""Password, or secret of the API key, for that registry."""
AUTH_TYPE = Option("security.auth-type", optional(TEXT), CONNECTION, env="pravega_client_auth_method", connection=True)
"""Scheme of `security.auth-token`, for example `Basic` or `Bearer`."""
AUTH_TOKEN = Option(
    "security.auth-token", optional(TEXT), CONNECTION, env="pravega_client_auth_token", secret=True, connection=True
)
"""Token sent to the controller and the registry; for `Basic` it is base64 of `user:password`."""
USERNAME = Option("security.username", optional(TEXT), CONNECTION, connection=True)
"""User name for Basic authentication; needs `security.password`."""
PASSWORD = Option("security.password", optional(TEXT), CONNECTION, secret=True, connection=True)
"""Password for Basic authentication."""
CREDENTIALS = Option("security.credentials", optional(PLUG_IN), START, connection=True)
"""Plug-in: a callable without arguments that returns an object whose `authorization()` returns `Scheme token`. That
method is called for every request, so it may refresh the token. The plug-in must be importable on the executors too."""
USER_LOGINS = Option("security.user-logins", optional(PLUG_IN_OR_FILE), START, connection=True)
"""For a server with users of its own (Thrift, Connect): each session logs in as its user. A file's absolute path: JSON
from names of users to passwords, or to `{"auth-type": ..., "auth-token": ...}`, which only its owner may read (mode
0600). Or a plug-in: a callable that takes the name and returns what `security.credentials` describes, None for users
without rights. See [Each user's own login](deployment.md#each-users-own-login)."""
TRUST_STORE = Option("security.trust-store", optional(TEXT), CONNECTION, env="PRAVEGA_TRUST_STORE", connection=True)
"""PEM file with the certificate authorities to trust, on the driver and on every executor. Not set: the system's
authorities."""
VALIDATE_HOSTNAME = Option("security.validate-hostname", BOOLEAN, CONNECTION, "true", connection=True)
"""Check that a server's certificate names the host of its address."""
ALLOW_PLAIN_REGISTRY = Option(
    "security.allow-plain-registry", BOOLEAN, START, "false", env="PRAVEGA_ALLOW_PLAIN_REGISTRY", connection=True
)
"""Whether a login may be sent to a registry over `http`, in the clear, though the controller is reached by TLS."""
REQUEST_TIMEOUT = Option(
    "request-timeout", between(DURATION, "100ms", "1h"), SettableAs.CATALOG | QUERY, "30s", connection=True
)
"""How long one request to a server may take."""
RETRY_TIMEOUT = Option(
    "retry-timeout", between(DURATION, "100ms", "1d"), SettableAs.CATALOG | QUERY, "60s", connection=True
)
"""How long to keep trying when a server cannot be reached. Commands, sessions and `connect()` try a controller or
registry that has never answered them, and that refuses connections or has an unknown host, for only 10s, unless this is
set. Wrong credentials, missing rights and TLS faults are never retried."""

ADDRESSES = (CONTROLLER_URI, SCHEMA_REGISTRY_URI)
LOGIN = (AUTH_TYPE, AUTH_TOKEN, USERNAME, PASSWORD, CREDENTIALS)
"""The options that say how to log in."""
TRUST = (TRUST_STORE, VALIDATE_HOSTNAME)
"""The options that say which servers to trust."""

PYTHON = Option("python", optional(TEXT), START)
"""Python interpreter of the catalog service on the driver; it must have this package. Not set: the driver's Python
(`spark.pyspark.driver.python`, `PYSPARK_DRIVER_PYTHON`) if it is a Python, else the tasks' Python
(`spark.pyspark.python`, `PYSPARK_PYTHON`, then `python3`)."""
QUERIES_RUN = Option("queries.run", SCOPES, START, "false")
"""Whether this driver also runs the streaming queries of `CALL system.start_query` whose own driver has ended: all of
them, or those into tables of the named scopes. It looks for them from its start. Meant for servers, such as the Thrift
server. Whoever may change the queries of a scope decides what such a server runs."""
QUERIES_LEASE = Option("queries.lease", between(DURATION, "3s", "10min"), START, "15s")
"""How long other drivers leave a streaming query to this one while it gives no sign of life. It gives one every third
of this time."""
LAKE_CATALOG = Option("lake.*", optional(LAKE_PROPERTIES), START, env="PRAVEGA_LAKE", secret=True)
"""Properties of the catalog of the [lake](history-in-a-lake.md), which pyiceberg gets without the prefix `lake.`:
`lake.type`, `lake.uri`, `lake.warehouse` and others. A value `${env:NAME}` is read from the environment. The
environment variable has all of them as JSON, without the prefix; it counts if no conf begins with `lake.`."""
VIEWS = Option("views", one_of("true", "false", "own"), START, "true")
"""Which views are read: their SQL runs with the rights of the reader and of the driver, whoever wrote it. `true`: all.
`false`: none, and none is created. `own`: those that this driver has created or last changed with the reader's login,
since it began; what others change afterwards is not read. See [Views](views.md#whose-sql-it-is)."""
SPELLING = Option("names", one_of("sql", "exact"), SettableAs.CATALOG, "sql")
"""How SQL writes the names of scopes and streams. `sql`: `_` also means `-`, because Pravega's names have no `_`; lists
show `_`. `exact`: names are written as in Pravega."""
SCOPE = Option("scope", optional(TEXT), SettableAs.CATALOG | QUERY, env="PRAVEGA_SCOPE", hint=BY_OPTIONS)
"""Scope of the stream. In catalog conf: the namespace that `USE <catalog>` selects."""
CATALOG = Option("catalog", optional(TEXT), QUERY)
"""For `spark.read.format("pravega")` and the like: the catalog whose conf says how to connect. Not set: the options of
the query, if one of them says so; else the session's Pravega catalog, if there is only one; else the environment."""
STREAM = Option("stream", optional(TEXT), QUERY, hint=BY_OPTIONS)
"""Name of the stream, for `spark.read.format("pravega")` and `df.write.format("pravega")`."""
