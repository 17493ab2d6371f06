# make test     run the tests: unit, conformance, integration, spark; those of C also on the newest other CPython
#               (KAFKA=real: those of clients on Apache Kafka too, as test-all has them)
# make test-all run the long tests: more tests, fresh seeds, ten times the examples, every installed CPython (SHARD=number;
#               SUITES="kafka-python kgo=folder": tests of other clients, from sources of yours)
# make test-kerberos  run the tests of GSSAPI, none of which may be skipped: they need MIT Kerberos, which .ci/run installs
# make test-postgresql  run the tests on PostgreSQL, none of which may be skipped: .ci/run installs Debian's package
# make test-frames  run the tests of frames, none of which may be skipped: they need Dask and Ray, which it installs
# make test-servers  run the tests of clients on each profile of another server (SERVERS=redpanda ON_SERVERS=tests/integration/client)
# make test-kcat  run the commands of docs/guide/porting/kcat.md with kcat itself: .ci/run installs Debian's package
# make test-prometheus  ask Prometheus each query of the dashboard, with no test skipped: .ci/run installs Debian's package
# make test-arrow  read Arrow streams by each library that takes them, old and new releases, which it downloads
# make demo     stream the flights of 2013 through Spark, exactly once, and kill its driver (KAFKA=real: on Apache Kafka)
# make bench    compare the speed with other clients, on one broker (BENCH="name pattern-*": only those rows);
#               BASE=commit: with that commit's library instead, in processes that take turns (ROUNDS=5 pairs)
# make bench-strategies   compare the fetch strategies, in docs/internals/results/consumer.md
# make bench-spark        compare the Spark source and sink with Spark's own connector, in docs/internals/results/spark.md (BENCH="row")
# make bench-sweep        measure a producer's linger_ms, batch_size and requests in flight, in docs/internals/results/producer.md
# make fuzz     fuzz every decoder, with sanitizers too, which needs clang (SECONDS=60, SEED=random; FUZZ=targets); run
#               clients under sanitizers against a faulty broker, for a third of the time (CHAOS="memory threads")
# make soak     run producers under faults, read everything back, and make rebalances (MINUTES=3, SEED=random, RATE=1, SECURITY=sasl_ssl; DETACH=1; RESUME=folder)
# make rebalances  force rebalances of groups under load (REBALANCES=30, SEED=random, CLIENT=confluent, EXACTLY_ONCE=1; LATE=1: half of the members revoke late)
# make hidden-inputs  stop transactions while their coordinators are killed, and read everything back (CYCLES=10, SEED=random; RESUME=folder)
# make soak-status  show the progress of the last soak
# make simulate run clients, and then groups, in simulated worlds, each decided by its seed, under random faults (SEEDS=200, SEED=0)
# make mutants  draw mutants, and run the unit tests on them (SEED=random, COUNT=60, AREA=net; AREA=simulation or groups: planted ones, simulated)
# make lint     run ruff, cython-lint, mypy, basedpyright, import-linter; refuse candidates of `make prose` in errors, warnings,
#               logs and --help
# make format   apply ruff's automatic fixes
# make prose    count sentences that stand for no noun of the code or of Kafka; PROSE="kafwire --list error"
# make loc      print lines of code by package: library, tests, the rest
# make docs     build the site of the documentation in build/site, and check its links and anchors
# make dist     build the source distribution and the wheel in build/dist, test the wheel in an empty environment, and its speed
#               (KAFWIRE_SOURCE_URL=https://...: the repository, for a package index; without it, links of README are text)
# make wheels   build the wheels of all targets for each installed CPython in build/wheels, and test each as it can be here
# make build    create the environment in .venv, and compile the extensions
# make clean    remove everything that was made here (the jars in the user's cache stay)
#
# PYTHON=python3.13 chooses the interpreter; TESTS="tests/unit -k records" what `make test` runs (default: all).

PYTHON ?= python3
TESTS ?=
BENCH ?=
BASE ?=
ROUNDS ?= 5
SECONDS ?= 60
SEED ?=
FUZZ ?=
CHAOS ?= memory
MINUTES ?= 3
RATE ?= 1
SECURITY ?=
DETACH ?=
RESUME ?=
REBALANCES ?= 30
CYCLES ?=
COUNT ?= 60
LATE ?=
SEEDS ?= 200
KAFKA ?=
AREA ?=
SHARD ?= all
SERVERS ?= redpanda event-hubs warpstream automq
ON_SERVERS ?= tests/integration
SUITES ?= kafka-python
export SUITES

# Built extensions are kept under a hash of what they are made from, for this folder and others.
export KAFWIRE_BUILD_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kafwire/built

VENV := .venv
BIN := $(VENV)/bin
USER_TEXTS := error warning log help
JOBS := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
STEP = $(BIN)/python scripts/progress.py
SOURCES := setup.py $(shell find kafwire -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]')
# Those of logins in general have one of GSSAPI's.
KERBEROS_TESTS := $(shell find tests -name 'test_*gssapi*.py' -o -name 'test_*kerberos*.py') tests/unit/security/test_login.py
POSTGRESQL_TESTS := $(shell find tests -name 'test_*postgresql*.py')

.DELETE_ON_ERROR:
.PHONY: build test test-all test-frames test-kerberos test-postgresql test-servers test-kcat test-prometheus test-arrow demo bench bench-strategies bench-sweep bench-spark dist docs wheels fuzz soak soak-status rebalances hidden-inputs simulate mutants lint format loc prose jars ready clean

build: $(VENV)/built $(VENV)/linked

test: ready
	$(if $(TESTS),$(BIN)/python -m pytest $(TESTS),$(BIN)/python -m scripts.run_tests)

test-all: ready $(VENV)/has-long
	@$(if $(filter commit,$(SHARD)),,$(MAKE) --no-print-directory $(VENV)/has-frames || echo "tests of Dask and Ray are skipped")
	@$(BIN)/python -m kafwire.testing.cluster fetch 4.3.1 >/dev/null
	$(BIN)/python -m scripts.run_tests --shard $(SHARD)

test-frames: ready $(VENV)/has-frames
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q --long tests/unit/frames tests/integration/frames

test-kerberos: ready $(VENV)/has-kerberos
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q $(KERBEROS_TESTS)

test-postgresql: ready $(VENV)/has-postgresql
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q $(POSTGRESQL_TESTS)

test-servers: ready
	for server in $(SERVERS); do KAFKA=$$server $(BIN)/python -m pytest -q -n $(JOBS) --timeout 240 $(ON_SERVERS) || exit 1; done

test-kcat: ready
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q tests/integration/docs/test_docs_porting_kcat.py

test-prometheus: ready
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q tests/integration/docs/test_dashboard_prometheus.py

test-arrow: ready
	KAFWIRE_NO_SKIPS=1 $(BIN)/python -m pytest -q --long tests/integration/consumer/test_arrow_consumers.py

# Compiling and downloading at once.
ready: $(VENV)/made
	@$(MAKE) --no-print-directory -j 2 $(VENV)/built $(VENV)/has-test
	@$(MAKE) --no-print-directory build jars

demo: build $(VENV)/has-demo $(if $(filter real,$(KAFKA)),jars)
	$(BIN)/python -m demo

bench: build $(VENV)/has-bench jars
	set -f; $(BIN)/python -m $(if $(BASE),benchmarks.compare $(BASE),benchmarks) $(BENCH) --rounds $(ROUNDS)
	$(if $(BENCH)$(BASE),,$(BIN)/python -m benchmarks.groups)
	$(if $(BENCH)$(BASE),,$(BIN)/python -m benchmarks.streams)

bench-strategies: build $(VENV)/has-bench jars
	$(BIN)/python -m benchmarks.strategies

bench-sweep: build $(VENV)/has-bench jars
	$(BIN)/python -m benchmarks.sweep

bench-spark: build $(VENV)/has-test $(VENV)/has-bench jars
	$(BIN)/python -m benchmarks.spark $(BENCH) --rounds $(ROUNDS) --output benchmarks/spark/results.json

dist: ready $(VENV)/has-dist $(if $(filter x86_64,$(shell uname -m)),$(VENV)/has-wheel)
	$(BIN)/python -m scripts.dist
	$(BIN)/python -m benchmarks.wheel build/dist/*.whl --least 0.9
	KAFKA=real $(BIN)/python -m pytest -q --long tests/integration/docs/test_first_hour.py

docs: $(VENV)/has-docs
	$(BIN)/python -m scripts.site

wheels: ready $(VENV)/has-dist $(VENV)/has-wheel
	$(BIN)/python -m scripts.all_wheels
	$(BIN)/python -m benchmarks.wheel build/dist/*.whl

fuzz: build $(VENV)/has-fuzz
	$(BIN)/python -m pytest -q tests/fuzz
	$(BIN)/python -m fuzz $(FUZZ) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m fuzz.chaos $(CHAOS) --seconds $$(($(SECONDS) / 3)) $(if $(SEED),--seed $(SEED))

soak: build $(VENV)/has-test jars
	$(BIN)/python -m tests.soak $(if $(RESUME),--resume $(RESUME),--minutes $(MINUTES) --rate $(RATE) $(if $(SEED),--seed $(SEED)) $(addprefix --security ,$(SECURITY))) \
	    $(if $(DETACH),--detach)
	$(if $(RESUME)$(DETACH),,$(BIN)/python -m tests.soak.rebalances --rebalances $(REBALANCES) $(if $(SEED),--seed $(SEED)))

rebalances: build $(VENV)/has-test jars
	$(BIN)/python -m tests.soak.rebalances --rebalances $(REBALANCES) $(if $(SEED),--seed $(SEED)) $(if $(CLIENT),--client $(CLIENT)) $(if $(EXACTLY_ONCE),--exactly-once) $(if $(LATE),--late)

hidden-inputs: build $(VENV)/has-test jars
	$(BIN)/python -m tests.soak.hidden_inputs $(if $(RESUME),--resume $(RESUME),$(if $(SEED),--seed $(SEED))) $(if $(CYCLES),--cycles $(CYCLES))

soak-status:
	@$(BIN)/python -m tests.soak --status

simulate: build
	$(BIN)/python -m kafwire.testing.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.soak.group_schedules --seeds $(SEEDS) $(if $(SEED),--seed $(SEED))

mutants: build $(VENV)/has-test
	$(if $(filter simulation groups,$(AREA)),$(BIN)/python -m scripts.mutants.simulated --area $(AREA),\
	    $(BIN)/python -m scripts.mutants --count $(COUNT) $(if $(SEED),--seed $(SEED)) $(addprefix --area ,$(AREA)))

lint: build $(VENV)/has-test $(VENV)/has-bench $(VENV)/has-demo $(VENV)/has-lint
	@status=0; export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	for linter in "ruff check ." "ruff format --check ." "cython-lint kafwire" mypy basedpyright lint-imports \
	    "python -m scripts.prose . --list $(USER_TEXTS) --fail $(USER_TEXTS)"; do \
	    echo "--- $$linter"; $$linter || status=1; \
	done; exit $$status

format: $(VENV)/has-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

loc:
	@$(PYTHON) -m scripts.loc

prose:
	@$(PYTHON) -m scripts.prose $(PROSE)

jars: $(VENV)/built $(VENV)/has-test
	@$(STEP) "fetch Kafka 4.4.0 and 3.9.1" -- $(BIN)/python -m kafwire.testing.cluster fetch 4.4.0 3.9.1
	@$(STEP) "prepare Kafka's archives of classes" -- $(BIN)/python -m kafwire.testing.cluster prepare

clean:
	rm -rf $(VENV) build dist *.egg-info .*_cache .hypothesis
	find kafwire -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made: scripts/check.sh
	@sh scripts/check.sh $(PYTHON)
	@$(PYTHON) scripts/progress.py "create the environment in $(VENV)" -- $(PYTHON) -m venv --clear $(VENV)
	@$(STEP) "install the newest pip" -- $(PIP) --upgrade pip
	@$(STEP) "install what building needs" -- $(PIP) $$($(BIN)/python scripts/requirements.py)
	@touch $@

$(VENV)/built: $(VENV)/made $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace --parallel $(JOBS)
	@touch $@

# Its metadata and commands, for an interpreter started outside this folder too. pip would compile everything once more.
$(VENV)/linked: $(VENV)/built pyproject.toml
	@KAFWIRE_EXT=_buffer $(STEP) "link this folder into $(VENV)" -- $(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/has-%: $(VENV)/made pyproject.toml
	@$(STEP) "install the group $* of pyproject.toml" -- $(PIP) $$($(BIN)/python scripts/requirements.py $*)
	@touch $@
