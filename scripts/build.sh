#!/usr/bin/env bash
# Builds tputc, the C++ shim for the installed PyTorch, and the wheel that holds it; installs both into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
# Together, with the features that maturin asks for, so that what both are made of is compiled once.
cargo build --quiet --release -p torchtpu-cli -p torchtpu-py --features pyo3/extension-module
install -m 755 target/release/tputc .venv/bin/tputc

# The wheel brings the shim for this PyTorch, and its sources for others. Both lie in the package while it is built.
package=python/torchtpu
rm -rf "$package/csrc" && cp -r csrc "$package/csrc"
build_shim=(env TORCH_DEVICE_BACKEND_AUTOLOAD=0 .venv/bin/python -I "$package/_build.py")
made_of="$(cat csrc/* "$package/_build.py" | sha256sum) $("${build_shim[@]}")"
if [ "$(cat target/shim 2>/dev/null)" != "$made_of" ]; then
    rm -f "$package"/_shim.*.so target/shim
    "${build_shim[@]}" "$package"
    echo "$made_of" > target/shim
fi

rm -rf target/wheels
.venv/bin/maturin build --quiet --release --strip --out target/wheels
.venv/bin/uv pip install -q --python .venv/bin/python --no-deps --reinstall target/wheels/torchtpu-*.whl
# As scripts/setup.sh does for what it installs.
.venv/bin/python -m compileall -qq "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchtpu"
