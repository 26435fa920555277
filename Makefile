# `make help` lists the targets. Needs Python 3.11 or newer and a JDK 17, 21 or 25; everything else is installed
# into .venv by `make setup`, which the other targets do by themselves.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Otherwise each of the hundred Python processes of a test run compiles all modules, which is a third of its start.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
ARCHIVE := $(VENV)/.classes-archived
PYTEST_ARGS ?=
# Patches and kustomizations have no schema; a test puts them together, and checks the whole.
KUBERNETES := $(filter-out %/kustomization.yaml,$(wildcard docker/kubernetes/base/*.yaml)) \
  docker/kubernetes/executors/executor-pod.yaml docker/kubernetes/executors/rights.yaml
# Tests often wait for servers: on two cores, a third process takes a sixth of the time away. Each takes 2.5 GB of memory.
TEST_PROCESSES ?= 3
# Of make 4, so that the texts of two jobs do not mix.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
BENCH_ARGS ?=
DEMO_ARGS ?=
RELEASE_ARGS ?=

.PHONY: help
help: ## Show this list
	@grep -E '^[a-z0-9/.-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]+):.*## (.*)/  \1|\2/' | column -t -s '|'

.PHONY: setup
setup: $(STAMP) ## Make .venv with all tools and this project in it (nothing to do when it is up to date)

$(STAMP): requirements-dev.txt pyproject.toml tools/build_backend.py tools/native_build.py tools/find-python.sh
	@echo "Setting up $(VENV), which takes a minute or two: the first time this downloads PySpark (about 450 MB)"
	test -x $(BIN)/python || "$$(tools/find-python.sh)" -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: jar
jar: $(STAMP) ## Compile the Java adapter (only when its sources changed)
	@$(BIN)/python tools/build_backend.py jar

.PHONY: native
native: $(STAMP) ## Compile the native decoder (only when its sources changed; nothing without Rust's cargo)
	@$(BIN)/python tools/build_backend.py native

# What starts Spark often starts sooner with it. Others have it recorded by their first session.
$(ARCHIVE): $(STAMP) | jar native
	@echo "Archiving Spark's classes, which takes a minute"
	@$(BIN)/python -m pyspark_pravega.spark.class_archive_recording && touch $@ || echo "There is no archive: sessions will start more slowly"

# Generated code runs with the version of protobuf that it was generated with, with newer ones, and with those of the next
# major number. So the generator must be of the oldest version in `pyproject.toml`. It is given the package's path, by the
# link in `pyspark_pravega/`, so that the generated modules are part of the package.
PROTO_TOOLS = build/proto/grpcio-tools-1.76.0
.PHONY: proto
proto: $(PROTO_TOOLS) ## Regenerate the messages of gRPC and of Substrait from their .proto files
	$(PROTO_TOOLS)/bin/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. \
	  pyspark_pravega/client/controller/controller.proto pyspark_pravega/catalog/api/substrait.proto

$(PROTO_TOOLS):
	"$$(tools/find-python.sh)" -m venv $@
	$@/bin/pip install --disable-pip-version-check --quiet "grpcio-tools==$(lastword $(subst -, ,$@))" || { rm -r $@; exit 1; }

docs/options.md: $(wildcard sql/options/*.py) sql/option_types.py tests/reference_pages.py $(STAMP) ## Renew the list of options in it
	$(BIN)/python -m tests.reference_pages $@

docs/spark-versions.md: tests/spark_versions.py $(wildcard tests/spark_results/*.json) $(STAMP) ## Renew the table of features in it
	$(BIN)/python -m tests.spark_versions table $@

docs/debezium/reference.md: formats/changes/encodings/matrix.py tests/type_matrix.py $(STAMP) ## Renew the matrix of types in it
	$(BIN)/python -m tests.type_matrix $@

examples/notebook/tutorial.ipynb: docs/tutorial.md tests/tutorial_notebook.py $(STAMP) ## Make the notebook of the tutorial
	$(BIN)/python -m tests.tutorial_notebook > $@

docs/troubleshooting.md: $(wildcard pyspark_pravega/errors/*.py) tests/reference_pages.py $(STAMP) ## Renew the list of errors in it
	$(BIN)/python -m tests.reference_pages $@

.PHONY: lint
lint: $(STAMP) ## Check style: Python, shell, YAML, Dockerfile, compose file, Kubernetes, and Rust if there is a cargo
	$(BIN)/ruff check .
	$(BIN)/shellcheck .ci/run tools/*.sh docker/*.sh
	$(BIN)/yamllint --strict -d '{extends: default, rules: {line-length: {max: 120}, document-start: disable, truthy: {check-keys: false}}}' docker .github
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose*.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/kubernetes-validate --strict --quiet -k 1.30 -k 1.37 $(KUBERNETES)
	@if command -v cargo > /dev/null; then set -x; cd native; \
	  cargo fmt --check; PYO3_NO_PYTHON=1 CARGO_TARGET_DIR=../build/native cargo clippy --quiet --locked -- -D warnings; \
	else echo "There is no cargo: the Rust sources were not checked"; fi

.PHONY: types
types: $(STAMP) ## Check types with mypy: --strict, tests and bench less so
	$(BIN)/mypy -p pyspark_pravega
	$(BIN)/mypy tools/build_backend.py tools/count.py tools/native_build.py tools/release/*.py tools/site/*.py examples/demo.py examples/keyvalue-format/keyvalue_format.py
	$(BIN)/mypy --explicit-package-bases tests bench

.PHONY: imports
imports: $(STAMP) ## Check that the folders import each other only as the architecture allows
	$(BIN)/lint-imports --cache-dir .import_linter_cache

# Two at a time: each uses one processor.
.PHONY: static
static: $(STAMP)
	$(MAKE) --jobs 2 $(SYNC) lint types imports

.PHONY: check
check: static ## Run what needs no server, no jar and no archive: lint, types, imports, unit tests (2 minutes)
	FUZZ_EVENTS=$${FUZZ_EVENTS:-5000} $(BIN)/python -m pytest --without-servers -n $(TEST_PROCESSES) --dist worksteal --quiet $(PYTEST_ARGS)

.PHONY: test
test: $(STAMP) ## Run everything that must pass: lint, types, imports, all tests on real servers (TEST_PROCESSES, PYTEST_ARGS)
	$(MAKE) --jobs 2 $(SYNC) lint types imports jar native $(ARCHIVE)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations 30 --maxfail 40 $(PYTEST_ARGS)
	$(MAKE) clients

# Its modules alone: importing all others takes half a minute. Arguments may name modules that have no such test.
SHORT = $(shell grep -rlE --include='*.py' 'pytest\.mark\.short($$|[^a-z])' tests)

.PHONY: clients
clients: build/pipelines/installed build/connect/installed build/dbt/installed jar native ## Run one test each of pipelines, Spark Connect, state in Python and dbt (the first run downloads 160 MB)
	PYTHONPATH=$(CURDIR)/build/pipelines $(BIN)/python -m pytest -n $(TEST_PROCESSES) -m short $(if $(filter tests/%,$(PYTEST_ARGS)),,$(SHORT)) $(PYTEST_ARGS) || [ $$? -eq 5 ]

.PHONY: jars
jars: $(STAMP) ## Compile the Java adapter for all versions of Spark (the first time this downloads 50 MB)
	@$(BIN)/python tools/build_backend.py jars

# The oldest and the newest release of each older line, each in an environment of its own.
SPARK41 := 4.1.0 4.1.4
SPARK42 := 4.2.0 4.2.1
# What pytest leaves out by itself, but for `long`.
WITH_LONG := $(shell sed -nE 's/^addopts = .*"-m", "not long and (.*)"\]$$/\1/p' pyproject.toml)
SPARK_RUN = -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder \
  -m "$(WITH_LONG)" \
  $$($(BIN)/python -m tests.spark_versions modules) --spark-results tests/spark_results

# One path through everything, for every run of CI: SQL in PySpark and over JDBC with TLS and a login, a stream whose
# catalog service is killed, a stream of changes.
OLDER_RUN = -m pytest tests/catalog/test_spark_versions.py tests/catalog/test_sql_behaviours.py \
  tests/catalog/tables/test_changes_by_options.py tests/faults/test_epochs.py -k "test_spark_versions or pyspark-pravega-created or \
  jdbc-secure-created or jdbc-secure-inserted or jdbc-secure-reading or test_a_stream_takes_each_change_once or \
  test_a_service_that_dies_before_anything_is_recorded"

# Both at the same time: each often waits for one server to start.
.PHONY: older-sparks
older-sparks: build/spark-$(lastword $(SPARK41))/installed build/spark-$(lastword $(SPARK42))/installed jars native ## Run a short path with Spark 4.1 and 4.2 (3 minutes; downloads twice 450 MB)
	$(MAKE) --jobs 2 $(SYNC) $(addprefix older-spark-,$(lastword $(SPARK41)) $(lastword $(SPARK42)))

.PHONY: $(addprefix older-spark-,$(SPARK41) $(SPARK42))
# A short run is not worth an archive that is recorded beside it.
$(addprefix older-spark-,$(SPARK41) $(SPARK42)): older-spark-%: build/spark-%/installed jars native
	PYSPARK_PRAVEGA_CLASSES=off build/spark-$*/bin/python $(OLDER_RUN) $(PYTEST_ARGS)

.PHONY: spark41 spark42 spark43
spark41: $(addprefix spark-,$(SPARK41)) ## Run tests of all features with Spark 4.1 (twice 15 minutes; downloads twice 450 MB)
spark42: $(addprefix spark-,$(SPARK42)) ## The same with Spark 4.2
spark43: $(STAMP) jar native ## The same with Spark 4.3, which `make test` has among all others
	$(BIN)/python $(SPARK_RUN) $(PYTEST_ARGS)

.PHONY: $(addprefix spark-,$(SPARK41) $(SPARK42))
$(addprefix spark-,$(SPARK41) $(SPARK42)): spark-%: build/spark-%/installed jars native
	build/spark-$*/bin/python $(SPARK_RUN) $(PYTEST_ARGS)

build/spark-%/installed: requirements-dev.txt | jars
	test -x build/spark-$*/bin/python || "$$(tools/find-python.sh)" -m venv build/spark-$*
	sed 's/^pyspark==.*/pyspark==$*/' requirements-dev.txt > build/spark-$*/requirements.txt
	build/spark-$*/bin/python -m pip install --disable-pip-version-check --quiet -r build/spark-$*/requirements.txt
	build/spark-$*/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: long
long: jar native $(ARCHIVE) ## Run at length what `make test` has in brief (TEST_PROCESSES, PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder -m "long and $(WITH_LONG)" $(PYTEST_ARGS)
	FUZZ_EVENTS=$${FUZZ_EVENTS:-20000} $(BIN)/python -m pytest -n $(TEST_PROCESSES) $(PYTEST_ARGS) \
	  tests/formats tests/interop/test_connect_types.py tests/interop/test_connect_fuzz.py

.PHONY: faults
faults: jar native ## Run the tests of faults that take minutes (an hour or two; PYSPARK_PRAVEGA_FAULT_ROUNDS, _SEEDS)
	$(BIN)/python -m pytest -m faults -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# So that all of them come round in some twenty runs of CI, whenever these are; but for a test that sleeps for 21 minutes.
SLICES := 20

.PHONY: slice
slice: jar native $(ARCHIVE) ## Run a twentieth of `make long`, `make faults` and `make flink`: the one of the last commit's date, or SLICE=0 to 19
	slice=$${SLICE:-$$(( $$(git log -1 --format=%ct) / 900 % $(SLICES) ))}; echo "Slice $$slice of $(SLICES); again with SLICE=$$slice"; \
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations 10 --slice $$slice/$(SLICES) \
	  -m "faults or flink or (long and $(WITH_LONG))" -k "not longer_than_a_tokens_life" $(PYTEST_ARGS)

.PHONY: pipelines
pipelines: build/pipelines/installed build/connect/installed jar native ## Run the tests that need pandas: pipelines, Connect, state (the first run downloads 120 MB)
	PYTHONPATH=$(CURDIR)/build/pipelines $(BIN)/python -m pytest -m pipelines $(PYTEST_ARGS)

build/pipelines/installed: requirements-pipelines.txt $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target build/pipelines -r $<
	@touch $@

build/connect/installed: requirements-connect.txt
	test -x build/connect/bin/python || "$$(tools/find-python.sh)" -m venv build/connect
	build/connect/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

.PHONY: dbt
dbt: build/dbt/installed jar native ## Run the dbt project of the examples over the Thrift server (the first run downloads 40 MB)
	$(BIN)/python -m pytest -m dbt $(PYTEST_ARGS)

build/dbt/installed: requirements-dbt.txt
	test -x build/dbt/bin/python || "$$(tools/find-python.sh)" -m venv build/dbt
	build/dbt/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

.PHONY: lakes
lakes: build/lakes/installed build/spark-$(lastword $(SPARK41))/installed jars native ## Run lakes in object storage, and by Polars, DuckDB and Iceberg's runtime (the first run downloads 700 MB)
	$(BIN)/python -m pytest -m lakes $(PYTEST_ARGS)
	PYSPARK_PRAVEGA_CLASSES=off build/spark-$(lastword $(SPARK41))/bin/python -m pytest tests/lakehouse -k lakes_ $(PYTEST_ARGS)

build/lakes/installed: requirements-lakes.txt
	test -x build/lakes/bin/python || "$$(tools/find-python.sh)" -m venv build/lakes
	build/lakes/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

.PHONY: flink
flink: jar native ## Run functions, scripts and tables in Flink and in Spark (the first run downloads 150 MB)
	$(BIN)/python -m pytest -m flink $(PYTEST_ARGS)

.PHONY: lineage
lineage: jar native ## See what OpenLineage's agent reports of batches and streams (the first run downloads 43 MB)
	$(BIN)/python -m pytest -m lineage $(PYTEST_ARGS)

.PHONY: notebook
notebook: build/notebook/installed jar native ## Run the notebook of the tutorial in a Jupyter kernel (the first run downloads 15 MB)
	PYTHONPATH=$(CURDIR)/build/notebook $(BIN)/python -m pytest -m notebook $(PYTEST_ARGS)

build/notebook/installed: requirements-notebook.txt $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target build/notebook -r $<
	@touch $@

.PHONY: count
count: $(STAMP) ## Count lines by hand, modules, rooms, imports between them, vague names and repeated file names
	@$(BIN)/python tools/count.py

.PHONY: docs
docs: build/docs/installed ## Make a website of docs/ in build/site, with every link checked (the first run downloads 35 MB)
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --config-file tools/site/mkdocs.yml
	@echo "open it: build/site/index.html"

build/docs/installed: requirements-docs.txt tools/site/scripts.lock tools/site/scripts.py
	test -x build/docs/bin/python || "$$(tools/find-python.sh)" -m venv build/docs
	build/docs/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	build/docs/bin/python tools/site/scripts.py build/docs/scripts
	@touch $@

.PHONY: ui-test
ui-test: docs $(STAMP) ## See the web pages and the site in a headless Chromium (needs Debian's chromium and chromium-driver)
	$(BIN)/python -m pytest -m chromium $(PYTEST_ARGS)

.PHONY: image-test
image-test: $(STAMP) ## Build the image and run what docker/compose.yaml says (20 minutes; skipped without a Docker engine)
	@if docker info > /dev/null 2>&1; then set -x; $(BIN)/python -m pytest -m image $(PYTEST_ARGS); \
	else echo "SKIPPED: no Docker engine answers here, so the image was not built and nothing was run"; fi

.PHONY: demo
demo: jar native ## Start a local Pravega, run the sensor pipeline in SQL in three front ends and as a stream, stop it again (DEMO_ARGS)
	@$(BIN)/python examples/demo.py $(DEMO_ARGS)

.PHONY: bench
bench: jar native ## Measure latency, memory, a small crowd, scan and INSERT against the bare range read and the bare writer (BENCH_ARGS)
	$(BIN)/python -m bench.latency_and_memory
	$(BIN)/python -m bench.small_statements
	$(BIN)/python -m bench.crowd --front pyspark --clients 1,16 --seconds 4 --only 'of 100 rows|of 1 row$$'
	$(BIN)/python -m bench.raw_throughput $(BENCH_ARGS)

.PHONY: bench-formats
bench-formats: native ## Measure decoding and encoding per core, native and in Python, against the goals (BENCH_ARGS)
	$(BIN)/python -m bench.decoding $(BENCH_ARGS)

.PHONY: bench-queries
bench-queries: jar native ## Measure queries and INSERTs of JSON and Avro against Spark's from_json and from_avro (BENCH_ARGS)
	$(BIN)/python -m bench.end_to_end $(BENCH_ARGS)

.PHONY: bench-changes
bench-changes: jar native ## Measure current rows, streams of changes, and the search for truncations (BENCH_ARGS)
	$(BIN)/python -m bench.current_rows $(BENCH_ARGS)
	$(BIN)/python -m bench.changes_stream $(BENCH_ARGS)
	$(BIN)/python -m bench.truncations $(BENCH_ARGS)

.PHONY: bench-lake
bench-lake: jar native ## Measure reads of a table with a lake against the stream, and against Spark on the same files (BENCH_ARGS)
	$(BIN)/python -m bench.lake $(BENCH_ARGS)

.PHONY: bench-streaming
bench-streaming: jar native ## Measure streaming queries: latency, sustained throughput, memory, sizes of micro-batches (BENCH_ARGS)
	$(BIN)/python -m bench.streaming $(BENCH_ARGS)

.PHONY: bench-scale
bench-scale: build/dbt/installed jar native ## Measure and draw how time and memory grow with events, segments, columns, streams (BENCH_ARGS)
	$(BIN)/python -m bench.scale $(BENCH_ARGS)

.PHONY: bench-parts
bench-parts: jar native ## Measure what a scan of one segment gains from more tasks (BENCH_ARGS)
	$(BIN)/python -m bench.parts $(BENCH_ARGS)

.PHONY: bench-row-changes
bench-row-changes: jar native ## Measure UPDATE and MERGE beside what they consist of (BENCH_ARGS)
	$(BIN)/python -m bench.row_changes $(BENCH_ARGS)

.PHONY: bench-crowd
bench-crowd: build/dbt/installed build/pipelines/installed jar native ## Measure many statements at the same time, by each front end; or a long run, by --soak (BENCH_ARGS)
	$(BIN)/python -m bench.crowd $(BENCH_ARGS)

.PHONY: bench-writes
bench-writes: jar native ## Measure and draw INSERT by the size of events, and as root by the rate of a link (BENCH_ARGS)
	$(BIN)/python -m bench.scale writes plot $(BENCH_ARGS)

.PHONY: bench-kafka
bench-kafka: build/spark-$(lastword $(SPARK42))/installed jars native ## Measure tables beside Kafka's topics, with a broker and Spark 4.2 (BENCH_ARGS)
	build/spark-$(lastword $(SPARK42))/bin/python -m bench.kafka $(BENCH_ARGS)

.PHONY: bench-sessions
bench-sessions: jar native ## Measure how long a session takes to start, with Pravega and without (BENCH_ARGS)
	$(BIN)/python -m bench.session_start $(BENCH_ARGS)

.PHONY: bench-commits
bench-commits: native ## Measure what the commit log costs an append and a scan, as versions become many (BENCH_ARGS)
	$(BIN)/python -m bench.commit_log $(BENCH_ARGS)

.PHONY: bench-python
bench-python: jar native ## Measure reading and writing without Spark beside Spark (BENCH_ARGS)
	$(BIN)/python -m bench.python_api $(BENCH_ARGS)

.PHONY: fuzz
fuzz: jar native ## Damage a million events per format, and ask 100,000 generated queries with and without push-down (FUZZ_SEED)
	export FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM}; echo "FUZZ_SEED=$$FUZZ_SEED"; \
	FUZZ_EVENTS=$${FUZZ_EVENTS:-1000000} FUZZ_QUERIES=$${FUZZ_QUERIES:-100000} $(BIN)/python -m pytest --timeout 0 \
	  tests/formats/core/test_fuzz.py tests/formats/native/test_fuzz.py tests/formats/changes/test_native_reader.py \
	  tests/interop/test_connect_fuzz.py \
	  tests/formats/protobuf/test_json_mapping.py \
	  tests/formats/json/test_against_validator.py \
	  tests/formats/avro/test_resolution_of_java.py \
	  tests/catalog/queries/test_equality.py tests/catalog/queries/test_equality_of_bad_events.py tests/catalog/queries/test_equality_of_versions.py \
	  $(PYTEST_ARGS)

.PHONY: wheel
wheel: $(STAMP) ## Build dist/*.whl and dist/*.tar.gz
	@$(BIN)/python -m build --quiet --no-isolation --config-setting=--global-option=--quiet --outdir dist .

build/release/env/installed: requirements-release.txt
	test -x build/release/env/bin/python || "$$(tools/find-python.sh)" -m venv build/release/env
	build/release/env/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

.PHONY: release
release: build/release/env/installed ## Make in dist/ what a release needs, see docs/releasing.md (needs Rust; RELEASE_ARGS)
	@PYTHONPATH=tools build/release/env/bin/python tools/release $(RELEASE_ARGS)

native/third-party.txt: native/Cargo.lock $(wildcard tools/release/*.py) ## Renew the licences of what is compiled in (needs Rust)
	PYTHONPATH=tools "$$(tools/find-python.sh)" tools/release/third_party.py > $@

.PHONY: clean
clean: ## Remove what was built (not .venv, not downloaded servers)
	rm -rf build dist *.egg-info jvm/*.jar native/*.so spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache
