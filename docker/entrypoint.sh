#!/usr/bin/env bash
# Runs what the container is asked for:
#   thriftserver [ARGUMENTS]   the JDBC server on all addresses, port THRIFT_PORT (10000)
#   connect-server [ARGUMENTS] the Spark Connect server on all addresses, port CONNECT_PORT (15002)
#   demo [--namespace NAME] [--keep]
#                              the sensor pipeline of examples/, on the Pravega of the environment; drops what it made
#   notebook [ARGUMENTS]       JupyterLab on all addresses, port NOTEBOOK_PORT (8888), in the image's target `notebook`
#   driver, executor           what Spark on Kubernetes asks its images for
#   answers PORT [HTTP_PORT]   for health checks: succeeds if a server of this container listens on PORT, and HTTP_PORT
#                              (without it PORT) answers within 3 s
#   listens PORT               the same without asking for an answer
#   sql, beeline, pyspark, submit, run, ui, conf, doctor, ...   the same command of pyspark-pravega
#   --version, --help          those of pyspark-pravega; other options go to thriftserver
#   anything else              that program: spark-submit, bash, ...
# Servers and logins come from the environment, see `pyspark-pravega --help`.
set -euo pipefail

case ${1:-} in
  --version | --help | -h) exec pyspark-pravega "$1" ;;
  "" | -*) set -- thriftserver "$@" ;;
esac

fail() {
  echo "$1" >&2
  exit 2
}

listens() {
  grep -qsi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6
}

# A health check asks every few seconds, so it leaves nothing behind: the kernel's list tells who listens without a
# connection, which a JDBC server would log as a broken one. Whether the program lives, its web interface tells.
if [[ $1 == listens || $1 == answers ]]; then
  [[ ${2:-} =~ ^[0-9]+$ && ${3:-0} =~ ^[0-9]+$ ]] || fail "usage: $1 PORT, where PORT is a number, such as 10000"
  listens "$2" || exit 1
  [[ $1 == answers ]] || exit 0
  # shellcheck disable=SC2016 # the inner shell has its own arguments
  exec timeout 3 bash -c 'exec 3<> "/dev/tcp/$1/$2" && printf "GET /api/v1/version HTTP/1.0\r\n\r\n" >&3 &&
    read -r -N 5 start <&3 && [[ $start == HTTP/ ]]' bash "${SPARK_LOCAL_IP:-localhost}" "${3:-$2}" 2> /dev/null
fi

make_directory() {
  mktemp -d 2> /dev/null || fail "The container can write nowhere: with --read-only, add --tmpfs /tmp."
}

# Java and Hadoop ask for the user's name, and a user that OpenShift or `docker run --user` made up has none.
if ! getent passwd "$(id -u)" > /dev/null && library=$(ldconfig -p | grep -o '/.*libnss_wrapper\.so$'); then
  names=$(make_directory)
  { getent passwd && echo "spark-user:x:$(id -u):$(id -g)::${HOME:-/}:/bin/false"; } > "$names/passwd"
  getent group > "$names/group"
  export LD_PRELOAD=$library NSS_WRAPPER_PASSWD=$names/passwd NSS_WRAPPER_GROUP=$names/group
fi

# Spark writes into its working directory, Python and Ivy into the home.
given_home=${HOME:-/}
if [[ ! -w $given_home ]]; then
  HOME=$(make_directory)
  export HOME SPARK_WORKER_DIR=$HOME/work
  # A directory that the container was told to start in stays.
  [[ $PWD != "$given_home" ]] || cd "$HOME"
fi

# Gives a server a directory of its own: one program at a time can use the metastore in it, and a shell in the same
# container wants one too. A volume may be there, also in a home that is read-only.
enter_own_directory() {
  local directory=$given_home/$1
  if [[ ! -d $directory || ! -w $directory ]]; then
    directory=$HOME/$1
    mkdir -p "$directory"
  fi
  cd "$directory"
}

case $1 in
  thriftserver)
    shift
    enter_own_directory thriftserver
    # Out of a container the server is only reached when it listens on all addresses.
    exec pyspark-pravega thriftserver --host 0.0.0.0 --port "${THRIFT_PORT:-10000}" "$@"
    ;;
  connect-server)
    shift
    enter_own_directory connect-server
    exec pyspark-pravega connect-server --conf "spark.connect.grpc.binding.port=${CONNECT_PORT:-15002}" "$@"
    ;;
  demo)
    shift
    exec "${PYSPARK_PYTHON:-python3}" "${EXAMPLES_DIR:-/opt/pyspark-pravega/examples}/demo.py" "$@"
    ;;
  notebook)
    shift
    command -v jupyter > /dev/null ||
      fail "This image has no Jupyter: build one with docker build -f docker/Dockerfile --target notebook ."
    enter_own_directory notebooks
    # The reader's own changes stay.
    cp --no-clobber "${EXAMPLES_DIR:-/opt/pyspark-pravega/examples}"/notebook/*.ipynb .
    exec jupyter lab --no-browser --ip 0.0.0.0 --port "${NOTEBOOK_PORT:-8888}" "$@"
    ;;
  driver)
    shift
    # Spark names the address of the pod, the only one that executors reach.
    [[ -v SPARK_DRIVER_BIND_ADDRESS ]] ||
      fail "driver is for Spark on Kubernetes, which sets SPARK_DRIVER_BIND_ADDRESS. Use submit."
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
  executor)
    [[ -v SPARK_DRIVER_URL ]] || fail "executor is for Spark on Kubernetes, which sets SPARK_DRIVER_URL."
    # Spark numbers the executor's Java options: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 and so on.
    options=()
    while variable=SPARK_JAVA_OPT_${#options[@]} && [[ -v $variable ]]; do
      options+=("${!variable}")
    done
    class_path="${SPARK_CONF_DIR:-$SPARK_HOME/conf}"
    # As in Spark's own image, where the working directory has been the last since SPARK-43540.
    for more in "${HADOOP_CONF_DIR:-}" "$SPARK_HOME/jars/*" "${SPARK_CLASSPATH:-}" "${SPARK_EXTRA_CLASSPATH:-}" \
      "${SPARK_DIST_CLASSPATH:-}" "$PWD"; do
      class_path+=${more:+:$more}
    done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$class_path" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  sql | beeline | pyspark | shell | submit | run | pipelines | show | ui | metrics | consumers | translate | conf | jar | doctor | local)
    exec pyspark-pravega "$@"
    ;;
  *)
    exec "$@"
    ;;
esac
