# `make` alone lists what there is to do. Each target installs what it needs first.

CARGO ?= cargo
PREFIX ?= /usr/local
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FAIRWATER := $(TARGET_DIR)/release/fairwater
FUZZ_SECONDS ?= 60
CERTIFY_FLAGS ?= --quick
NS3_PARTS := ns3-core ns3-network ns3-internet ns3-point-to-point ns3-applications ns3-traffic-control
NS3_PROGRAM := $(TARGET_DIR)/release/ns3-bottleneck
VENV := $(TARGET_DIR)/venv
PYTHON := $(VENV)/bin/python
PIP_INSTALL = CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) PATH="$(abspath $(VENV))/bin:$$PATH" \
	$(PYTHON) -m pip install --quiet --no-build-isolation --no-deps --force-reinstall .
PYTHON_FILES := crates/python/python crates/python/tests examples/python bench/python examples/edge/cni/fairwater-edge
BENCHMARKS := ack-cost loopback reaction fidelity fallback agent-cpu
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

RUN_AS_ROOT := --config 'target."cfg(all())".runner = ["sudo", "-E"]'

# With FAIRWATER_REQUIRE_PRIVILEGED=1 no test may be skipped for want of root, so the test
# programs (not the compiler) run under sudo.
ifneq ($(FAIRWATER_REQUIRE_PRIVILEGED),)
ifneq ($(SUDO),)
AS_ROOT := $(RUN_AS_ROOT)
PYTHON_AS_ROOT := sudo -E
endif
endif

.DEFAULT_GOAL := help
.PHONY: help setup build demo demo-bundle figures test test-python python loom miri cross fuzz lint bench bench-bundle bench-datapath bench-edge bench-quic bench-python bench-sim bench-utcp certify certify-faults doc header install uninstall clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is missing (apt), saying what and why
	@scripts/setup

build: setup ## build the release program
	$(CARGO) build --release --locked --package fairwater

demo: build ## Fairwater's Cubic beside the kernel's on a path of 48 Mbit/s and 20 ms; simulated without root or BTF
	scripts/demo $(FAIRWATER)

demo-bundle: build ## a queue that moves: two sites over 48 Mbit/s and 20 ms, without and with a bundle (root)
	$(CARGO) build --release --locked --package fairwater-testbed --example two_sites
	scripts/demo-bundle $(TARGET_DIR)/release/examples/two_sites $(FAIRWATER)

figures: build ## reproduce all results of papers in their quick forms, as a browsable atlas: target/atlas/index.html (root)
	$(CARGO) build --release --locked --package fairwater-bench
	$(SUDO) $(FAIRWATER) reproduce --quick --out $(TARGET_DIR)/reproduce.results --atlas $(TARGET_DIR)/atlas

test: lint loom ## lint, then run every test; as root, or with FAIRWATER_REQUIRE_PRIVILEGED=1, all of them
	$(CARGO) $(AS_ROOT) test --workspace --locked
	$(CARGO) test --package fairwater-quic --features quinn,s2n,virtual-time,transfer --lib --test quinn --test s2n --locked
	$(MAKE) test-python

# The profile of `cargo test`, and its directory: most of it is compiled already.
test-python: python ## check the Python package and its types, and run its tests
	$(VENV)/bin/ruff check $(PYTHON_FILES)
	$(VENV)/bin/ruff format --check $(PYTHON_FILES)
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest fairwater._fairwater --allowlist crates/python/tests/stubtest.allow
	PYTHONDONTWRITEBYTECODE=1 $(PYTHON_AS_ROOT) $(PYTHON) -m pytest -q -p no:cacheprovider crates/python/tests

python: $(VENV)/ready ## build the Python package for tests into a virtual environment, target/venv
	MATURIN_PEP517_ARGS="--profile dev" $(PIP_INSTALL)

$(VENV)/ready: crates/python/requirements.txt | setup
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --requirement $<
	touch $@

loom: setup ## run the shared-memory ring through every interleaving of its ends
	RUSTFLAGS="--cfg loom" $(CARGO) test --package fairwater-proto --lib --locked --target-dir $(TARGET_DIR)/loom loom

miri: setup ## run the shared-memory ring and both C interfaces under Miri (needs nightly Rust with the component miri)
	MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) +nightly miri test --package fairwater-proto --lib --locked --target-dir $(TARGET_DIR)/miri ring
	MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) +nightly miri test --package fairwater-capi --no-default-features --test calls --test ccp_calls --locked --target-dir $(TARGET_DIR)/miri

cross: setup ## run the compiler to aarch64 machine code under an emulator, which it installs
	scripts/cross

fuzz: setup ## fuzz each target for FUZZ_SECONDS (60), with cargo-fuzz, which it installs
	scripts/fuzz $(FUZZ_SECONDS)

lint: setup ## formatting, clippy (without std too) and the API documentation, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --package fairwater-datapath --no-default-features --target x86_64-unknown-none --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

bench: setup ## run every benchmark (see bench/README.md), on a machine that is idle otherwise
	$(CARGO) build --release --locked --package fairwater-bench
	for name in $(BENCHMARKS); do $(SUDO) $(TARGET_DIR)/release/fairwater-bench $$name || exit 1; done

bench-datapath: setup ## the datapath library against libccp, the plane in user space against portus
	$(CARGO) build --release --locked --package fairwater-bench
	for name in datapath plane-rate round-trip plane-cpu; do $(TARGET_DIR)/release/fairwater-bench $$name || exit 1; done

bench-bundle: build ## what the boxes of bundles carry and cost, and how long nothing passes when one hangs or is killed (root)
	$(CARGO) build --release --locked --package fairwater-bench
	$(CARGO) build --release --locked --package fairwater-bundle-linux --example receive_cost
	for name in bundle bundle-idle bundle-gap; do $(SUDO) $(TARGET_DIR)/release/fairwater-bench $$name || exit 1; done
	$(SUDO) $(TARGET_DIR)/release/examples/receive_cost

bench-edge: setup ## what the edge costs at a guest's port, and what it withstands: many connections, a flood, 1,000 kills
	$(CARGO) build --release --locked --package fairwater-bench
	$(CARGO) build --release --locked --package fairwater-edge-tc --example cost
	for name in edge edge-connections edge-flood edge-restarts; do $(SUDO) $(TARGET_DIR)/release/fairwater-bench $$name || exit 1; done
	$(SUDO) $(TARGET_DIR)/release/examples/cost

bench-quic: setup ## what an algorithm costs a QUIC server on noq: each ACK frame, throughput over loopback, and planes that are killed
	$(CARGO) build --release --locked --package fairwater-bench
	$(TARGET_DIR)/release/fairwater-bench quic
	$(TARGET_DIR)/release/fairwater-bench quic-kills

bench-utcp: setup ## a TCP in user space against the kernel's, itself simulated, and QUIC; 6 GB with loss; AF_XDP (root)
	$(CARGO) build --release --locked --package fairwater-bench
	$(CARGO) build --release --locked --package fairwater-utcp --example throughput
	for name in utcp transports; do $(SUDO) $(TARGET_DIR)/release/fairwater-bench $$name || exit 1; done
	FAIRWATER_REQUIRE_PRIVILEGED=1 $(CARGO) $(if $(SUDO),$(RUN_AS_ROOT)) test --release --locked --package fairwater-utcp --test kernel -- --ignored --nocapture
	for device in "" xdp xdp-native; do $(SUDO) $(TARGET_DIR)/release/examples/throughput 10 $$device || exit 1; done

bench-python: $(VENV)/ready ## how fast reports go through an algorithm in Python, and what memory ten million take; steps of environments
	$(PIP_INSTALL)
	$(PYTHON) bench/python/reports.py
	taskset -c 0 $(PYTHON) bench/python/gym_steps.py

bench-sim: setup ## the simulator's speed and memory, beside ns-3, which it installs
	$(CARGO) build --release --locked --package fairwater-bench
	-scripts/setup ns3 && $(CXX) -O3 -std=c++17 -o $(NS3_PROGRAM) bench/ns3/bottleneck.cc $$(pkg-config --cflags --libs $(NS3_PARTS))
	$(TARGET_DIR)/release/fairwater-bench sim --ns3 $(NS3_PROGRAM)

CERTIFIED := native:reno native:cubic basicdelay bbr bbr3 congestion_manager copa cubic dctcp hybla illinois ledbatpp nimbus reno sprout vegas vivace

certify: build ## certify every algorithm and the simulator's own, in the quick form unless CERTIFY_FLAGS says otherwise; what is done is kept in certify.results
	@set -e; for algorithm in $(CERTIFIED); do \
		echo "== $$algorithm"; \
		$(FAIRWATER) certify $$algorithm $(CERTIFY_FLAGS) > /dev/null || test $$? = 4; \
	done

certify-faults: setup ## let the search find three known faults, which takes minutes
	$(CARGO) test --package fairwater --test certify_faults --locked -- --ignored --nocapture

doc: ## build the API documentation
	$(CARGO) doc --workspace --no-deps --locked

header: ## write fairwater.h anew from the source of libfairwater
	FAIRWATER_WRITE_HEADER=1 $(CARGO) test --package fairwater-capi --test header --locked

install: build ## install the program, its man pages and libfairwater under PREFIX (/usr/local)
	$(CARGO) build --release --locked --package fairwater-capi
	$(SUDO) install -D -m 755 $(FAIRWATER) $(DESTDIR)$(PREFIX)/bin/fairwater
	$(SUDO) $(FAIRWATER) man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	$(SUDO) env DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) scripts/install-library $(TARGET_DIR)/release

uninstall: ## remove what `make install` installed there
	$(SUDO) env DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) scripts/install-library --uninstall
	$(SUDO) rm -f $(DESTDIR)$(PREFIX)/bin/fairwater $(DESTDIR)$(PREFIX)/share/man/man1/fairwater*.1

clean: ## remove what was built
	$(CARGO) clean
