#!/usr/bin/env bash
# Formatting, lints and types, with warnings denied; and the generated files, which must be fresh.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "==> lint"
cargo fmt --all --check
cargo clippy -q --workspace --all-targets -- -D warnings
.venv/bin/ruff format -q --check python tests benches examples scripts
.venv/bin/ruff check -q python tests benches examples scripts
.venv/bin/mypy --no-error-summary
.venv/bin/python -m mypy.stubtest torchtpu._native --ignore-missing-stub
.venv/bin/python scripts/ops_page.py .venv/bin/tputc | diff -u docs/ops.md - ||
    { echo "docs/ops.md is stale; run: make docs" >&2; exit 1; }
