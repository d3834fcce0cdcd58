#!/usr/bin/env bash
# Builds tputc and the wheel as release builds and installs both into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p torchtpu-cli
install -m 755 target/release/tputc .venv/bin/tputc
rm -rf target/wheels
.venv/bin/maturin build --quiet --release --strip --out target/wheels
.venv/bin/uv pip install -q --python .venv/bin/python --no-deps --reinstall target/wheels/torchtpu-*.whl
