# make demo | setup | test | test-all | bench | lint: each sets up what it needs and does no installing twice.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := $(CURDIR)/.venv
PYTHON := $(VENV)/bin/python
LLVM := /usr/lib/llvm-22
export MLIR_SYS_220_PREFIX := $(LLVM)
export TABLEGEN_220_PREFIX := $(LLVM)
export LIBCLANG_PATH := $(LLVM)/lib
# Each takes two GB of memory.
WORKERS := $(shell n=$$(nproc); echo $$((n < 8 ? n : 8)))

SOURCES := $(shell git ls-files 'crates/*' 'csrc/*' 'python/*' Cargo.toml Cargo.lock pyproject.toml 2>/dev/null)
INSTALLED := .venv/.installed-torchtpu

.PHONY: help setup setup-develop demo test test-all test-asan test-rust test-python lint bench bench-eager bench-fuse bench-aot docs clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: ## Install what is missing; leave python and tputc in .venv/bin.
	@scripts/setup.sh
	@$(MAKE) --no-print-directory $(INSTALLED)

setup-develop:
	@scripts/setup.sh develop
	@$(MAKE) --no-print-directory $(INSTALLED)

# The wheel and the command-line tool, release builds.
$(INSTALLED): $(SOURCES)
	@echo "==> building tputc and the wheel (release; minutes the first time)"
	@PATH="$(VENV)/bin:$$PATH" scripts/build.sh
	@touch $@

demo: setup ## Train and run a transformer through torch.compile(backend="torchtpu").
	@$(VENV)/bin/uv pip install -q --python $(PYTHON) transformers==5.23
	@$(PYTHON) examples/demo.py

test: setup-develop lint test-rust test-python ## Every test that CI runs.

test-all: test ## Also long sweeps: PyTorch's databases of ops and modules, architectures, damaged traces, random programs, training, sanitizers.
	@mkdir -p target
	for suite in ops compiled suites behaviours; do \
	  $(PYTHON) tests/python/sweep_device.py $$suite target/device-$$suite.jsonl --again || exit 1; \
	  rm target/device-$$suite.jsonl; \
	done
	$(PYTHON) tests/python/sweep_models.py target/test-models.jsonl --again
	rm target/test-models.jsonl
	CASES=500 cargo test -q --release -p torchtpu-fuse
	ulimit -v 4000000 && MUTATION_SECONDS=600 cargo test -q -p torchtpu-ir --test mutations
	TORCHTPU_VIEW_PROGRAMS=10000 $(PYTHON) -m pytest -q tests/python/test_device_views.py
	TORCHTPU_WRITE_PROGRAMS=500 $(PYTHON) -m pytest -q tests/python/test_written_parts.py
	TORCHTPU_REDUCTION_PROGRAMS=2000 $(PYTHON) -m pytest -q tests/python/test_random_reductions.py
	cargo build -q --release -p torchtpu-ir --example samples --example evaluate
	TORCHTPU_SAMPLES=target/release/examples/samples TORCHTPU_EVALUATE=target/release/examples/evaluate \
	  $(PYTHON) tests/python/sweep_programs.py target/programs.jsonl --again --shrink
	rm target/programs.jsonl
	TORCHTPU_SAME_RUNS=50 $(PYTHON) -m pytest -q tests/python/test_deterministic.py
	TORCHTPU_SAME_RUNS=20 $(PYTHON) -m pytest -q tests/python/test_fused.py -k different_load
	TORCHTPU_LEAK_STEPS=10000 $(PYTHON) -m pytest -q tests/python/test_device.py -k leaks
	TORCHTPU_TRAINING=all $(PYTHON) -m pytest -q tests/python/test_device_training.py
	TORCHTPU_TRAINING=all $(PYTHON) -m pytest -q tests/python/test_models.py -k "training or dropout"
	TORCHTPU_TRAINING=all $(PYTHON) -m pytest -q tests/python/test_lists.py -k optimizers
	# Not those that count executables of single ops, nor the samples of single ops, of which each would be a region of its own.
	PYTHONPATH=tests/python $(PYTHON) -m pytest -q -p fused_at_once tests/python/test_device*.py \
	  --ignore tests/python/test_device_compiles.py --ignore tests/python/test_device_ops.py
	TORCHTPU_TRAINING=all $(PYTHON) -m pytest -q tests/python/test_device_compiles.py -k lengths
	TORCHTPU_INTERPRET=always $(PYTHON) -m pytest -q tests/python/test_device_ops.py tests/python/test_device_views.py
	scripts/sanitize.sh

test-asan: setup-develop ## The device's core under AddressSanitizer.
	scripts/sanitize.sh

lint: setup-develop ## Format, clippy, ruff, mypy, stubs.
	@scripts/lint.sh

test-rust: setup-develop
	@echo "==> Rust tests"
	@if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --workspace --no-fail-fast; \
	 else cargo test -q --workspace --all-targets; fi
	@cargo test -q --workspace --doc

test-python: setup-develop
	@echo "==> Python tests"
	@$(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal tests/python

bench: setup-develop ## Step times beside eager and inductor; compile and call overheads.
	$(PYTHON) benches/overhead.py
	$(PYTHON) benches/lowering.py
	$(PYTHON) benches/first_call.py
	$(PYTHON) benches/models.py

bench-eager: setup-develop ## Eager ops on device "tpu" beside the CPU; fused mode beside strict and torch.compile.
	$(PYTHON) benches/eager.py
	$(PYTHON) benches/fused.py --set small,loops
	$(PYTHON) benches/fused.py --set large
	$(PYTHON) benches/fused_soak.py first
	$(PYTHON) benches/fused_soak.py memory
	$(PYTHON) benches/fused_soak.py growth --steps 20000 --models mlp

bench-fuse: setup-develop ## What our optimizer is worth, pattern by pattern and model by model.
	$(PYTHON) benches/fuse.py patterns --page docs/optimizer.md
	$(PYTHON) benches/fuse.py tpu --page docs/optimizer.md
	for part in cpu tpu page; do $(PYTHON) benches/fuse_models.py $$part || exit 1; done
	$(PYTHON) benches/fuse.py scale --page docs/optimizer.md

bench-aot: setup-develop ## Compile the models for TPUs that are not there; times and memory into docs/tpu-targets.md.
	$(PYTHON) benches/aot.py --page docs/tpu-targets.md

docs: setup-develop ## Regenerate docs/ops.md, and docs/models.md if target/models.jsonl has records of a sweep.
	$(PYTHON) scripts/ops_page.py $(VENV)/bin/tputc > docs/ops.md
	if [ -e target/models.jsonl ]; then $(PYTHON) scripts/models_page.py target/models.jsonl > docs/models.md; fi

clean: ## Remove what builds made; the virtual environment stays.
	rm -rf target dist $(INSTALLED)
