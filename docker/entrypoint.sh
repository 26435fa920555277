#!/usr/bin/env bash
# Runs what the container is asked for:
#   thriftserver [ARGUMENTS]   the JDBC server on all addresses, port THRIFT_PORT (10000)
#   demo [--namespace NAME] [--keep]
#                              the sensor pipeline of examples/, on the Pravega of the environment; drops what it made
#   sql, beeline, pyspark, submit, connect-server, conf, doctor, ...   the same command of pyspark-pravega
#   anything else              that program: spark-submit, bash, ...
# Servers and logins come from the environment, see `pyspark-pravega --help`.
set -euo pipefail

if [[ $# -eq 0 || $1 == -* ]]; then
  set -- thriftserver "$@"
fi

case $1 in
  thriftserver)
    shift
    # Out of a container the server is only reached when it listens on all addresses.
    exec pyspark-pravega thriftserver --host 0.0.0.0 --port "${THRIFT_PORT:-10000}" "$@"
    ;;
  demo)
    shift
    exec "${PYSPARK_PYTHON:-python3}" "${EXAMPLES_DIR:-/opt/pyspark-pravega/examples}/demo.py" "$@"
    ;;
  sql | beeline | pyspark | shell | submit | connect-server | conf | jar | doctor | local)
    exec pyspark-pravega "$@"
    ;;
  *)
    exec "$@"
    ;;
esac
