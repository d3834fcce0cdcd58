#!/usr/bin/env bash
# Installs what is missing to build TorchTPU: system packages, a virtual environment in .venv, torch, the plugins.
# Idempotent: what is there is left alone, and a second call installs nothing.
#
#   scripts/setup.sh [develop]     develop: also what the tests and the benchmarks need
#
# WITHOUT_LIBTPU=1 leaves the TPU plugin out.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

rust() {
    local wanted=1.95.0 found
    command -v cargo >/dev/null || fail "no Rust toolchain; install one with: curl https://sh.rustup.rs -sSf | sh -s -- -y"
    found=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" = "$wanted" ] ||
        fail "Rust $found is too old, $wanted is needed; update with: rustup update stable"
}

system_packages() {
    command -v apt-get >/dev/null || fail "this script knows apt only; see README.md for what to install by hand"
    local wanted=(g++ python3 python3-venv libmlir-22-dev llvm-22-dev libpolly-22-dev libclang1-22
        libclang-common-22-dev libzstd-dev zlib1g-dev libxml2-dev) missing=() package
    for package in "${wanted[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing system packages (about 1.5 GB): ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Installs a requirements file once per content.
packages() {
    local name=$1 stamp
    shift
    stamp=.venv/.installed-$name
    [ "$(cat "$stamp" 2>/dev/null)" = "$(cat "requirements/$name.txt")" ] && return
    say "installing Python packages: requirements/$name.txt"
    .venv/bin/uv pip install -q --python .venv/bin/python "$@" -r "requirements/$name.txt"
    cp "requirements/$name.txt" "$stamp"
}

python_packages() {
    if [ ! -x .venv/bin/uv ]; then
        say "making a virtual environment in .venv"
        python3 -m venv .venv
        .venv/bin/python -m pip install -q --disable-pip-version-check uv
    fi
    packages run
    packages plugin --require-hashes --no-deps
    if [ -z "${WITHOUT_LIBTPU:-}" ]; then
        [ -e .venv/.installed-libtpu ] || say "libtpu is Google's, under the Google Cloud Platform terms of service"
        packages libtpu --no-deps
    fi
    if [ "${1:-}" = develop ]; then
        packages develop
        packages no-deps --no-deps
    fi
}

rust
system_packages
python_packages "${1:-}"
