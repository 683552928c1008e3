# The commands: `make bench`, `make test`, and `make packages` for who ships Weir.

.PHONY: bench perf test test-long packages build lint setup programs costs tests checks

# All programs and tests at once: asked for one by one, the crates would be built again for each
# set of features that is needed then.
ALL := --workspace --locked --bins --tests
# Whoever builds once needs nothing kept for the next time.
ifneq ($(CI),)
export CARGO_INCREMENTAL := 0
endif
XTASK := cargo run --quiet --locked --bin xtask --
DEBUG := $${CARGO_TARGET_DIR:-target}/debug

build:
	cargo build --release --locked --package weir

# The Basic Set against the built-in broker, with a table and a report.
bench: build
	"$${CARGO_TARGET_DIR:-target}/release/weir" bench suite basic

# Runs the performance use cases on the built-in broker and Mosquitto alternately, with the raw costs of
# the same minute; kept under results/. Takes most of an hour: docs/developers/performance.md.
perf:
	cargo xtask perf

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(XTASK) tidy
	$(XTASK) coverage --check
	$(XTASK) manual --check
	@if cargo deny --version >/dev/null 2>&1; then \
	    cargo deny --log-level error check bans licenses sources; \
	else \
	    echo "lint: skipped cargo deny: scripts/setup --all installs it"; \
	fi

# Installs what the tests need (Mosquitto, Chromium, MQTT clients in other languages) and runs every
# test but the sweeps. What waits runs beside what computes.
test:
	$(MAKE) --jobs=2 setup programs
	$(MAKE) --jobs=2 tests checks

# The same, and what `make test` leaves out: the dependencies' licenses and sources, each fuzz
# target for ten seconds, the clients in Java, the API against its description, the sweeps, and
# features that are off by default: `kafka` against a Kafka, `otlp` and `zenoh`.
test-long: test
	scripts/setup --all
	cargo deny --log-level error check bans licenses sources
	JOBS=2 scripts/fuzz 10
	WEIR_EXE="$$(realpath "$(DEBUG)/weir")" cargo test $(ALL) -- --ignored
	cargo test --locked -p weir-control --lib --features otlp -- otlp
	cargo test --locked -p weir --test it --features otlp -- otlp
	cargo clippy --package weir --features kafka --all-targets --locked -- -D warnings
	cargo test --package weir-bridge --package weir-broker --locked --lib \
	    --features weir-bridge/kafka,weir-broker/kafka
	cargo test --package weir --features kafka --locked --test it -- --include-ignored kafka::
	cargo clippy --package weir-carrier --features zenoh --all-targets --locked -- -D warnings
	cargo test --package weir-carrier --features zenoh --locked

# All packages, installed and run: as root, with debootstrap, umoci, dpkg-dev, openssl and iproute2.
packages:
	scripts/package release target/packages
	VERSION=999 scripts/package deb "$${CARGO_TARGET_DIR:-target}/release/weir" target/packages/newer
	packaging/test-deb target/packages/weir_*.deb target/packages/newer/weir_*.deb
	packaging/test-image target/packages/weir-*-oci.tar
	packaging/test-chart "$${CARGO_TARGET_DIR:-target}/release/weir"

setup:
	scripts/setup

programs:
	cargo build $(ALL)

# Most tests wait for other programs, so there are more at a time than cores.
tests:
	WEIR_EXE="$$(realpath "$(DEBUG)/weir")" RUST_TEST_THREADS=$${RUST_TEST_THREADS:-5} \
	    cargo test $(ALL)

checks:
	nice $(MAKE) lint
	nice $(MAKE) costs

costs:
	$(XTASK) costs --check
