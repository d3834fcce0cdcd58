#!/usr/bin/env bash
# The device's tests with the C++ shim under AddressSanitizer, which also stands behind every allocation, copy and free of the
# process: those of the Rust core, PyTorch and the plugin. Arguments go to pytest instead of the default tests.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
site=${CARGO_TARGET_DIR:-$PWD/target}/asan/site

echo "==> building the shim with AddressSanitizer"
mkdir -p "$site/torchtpu"
core=$($python -c 'import torchtpu._native as native; print(native.__file__)')
cp -f python/torchtpu/*.py "$core" "$site/torchtpu/"
shim=$(find "$site" -name '_shim.*.so' | head -n1)
if [ -z "$shim" ] || [ -n "$(find csrc python/torchtpu/_build.py -newer "$shim")" ]; then
    CXXFLAGS="-O1 -g1 -fsanitize=address -fno-omit-frame-pointer" TORCH_DEVICE_BACKEND_AUTOLOAD=0 \
        $python -I python/torchtpu/_build.py "$site/torchtpu"
fi

echo "==> Python tests with AddressSanitizer"
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(
    tests/python/test_device.py tests/python/test_device_api.py tests/python/test_device_data.py
    tests/python/test_device_errors.py tests/python/test_device_views.py tests/python/test_threads.py
    -k "not leaks" # counts pages, which the sanitizer keeps back
)
# Python and PyTorch never free all they allocate, so leaks are not looked for. The C++ runtime is loaded first, so that the
# sanitizer finds the functions it wraps.
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc \
    LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" \
    PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" $python -m pytest -q -p no:cacheprovider "${tests[@]}"

if ! rustup toolchain list 2>/dev/null | grep -q nightly; then
    echo "==> the Rust core is left out: rustc instruments on a nightly toolchain alone (rustup toolchain install nightly)"
    exit
fi
echo "==> Rust tests of the device's core and the runtime with AddressSanitizer"
# Leaks are not looked for: the tests' plugins of their own, which lie to the core, leak by design.
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR="$(dirname "$site")" \
    cargo +nightly test --no-fail-fast -p torchtpu-runtime -p torchtpu-eager --target x86_64-unknown-linux-gnu --lib --tests
