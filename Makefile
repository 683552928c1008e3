# The two commands: `make bench` and `make test`.

.PHONY: bench perf test build lint

build:
	cargo build --release --locked

# The Basic Set against the built-in broker, with a table and a report.
bench: build
	target/release/weir bench suite basic

# Runs the performance use cases on the built-in broker and Mosquitto alternately, with the raw costs of
# the same minute; kept under results/. Takes most of an hour: docs/developers/performance.md.
perf:
	cargo xtask perf

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy
	cargo xtask coverage --check
	@if cargo deny --version >/dev/null 2>&1; then \
	    cargo deny --log-level error check bans licenses sources; \
	else \
	    echo "lint: skipped cargo deny: cargo install --locked cargo-deny installs it"; \
	fi

# Installs what the tests need (Mosquitto, Chromium, MQTT clients in other languages) and runs every
# test.
test:
	scripts/setup
	$(MAKE) lint
	cargo build --locked --package weir
	WEIR_EXE="$$(realpath "$${CARGO_TARGET_DIR:-target}/debug/weir")" cargo test --workspace --locked
	cargo xtask costs --check
	@[ -z "$${CI:-}" ] || JOBS=2 scripts/fuzz 2
