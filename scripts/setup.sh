#!/usr/bin/env bash
# Installs what is missing to build TorchTPU: system packages, a virtual environment in .venv, torch, the plugins.
# Idempotent: what is there is left alone, and a second call installs nothing.
#
#   scripts/setup.sh [develop]     develop: also what the tests and the benchmarks need
#
# WITHOUT_LIBTPU=1 leaves the TPU plugin out. PYTHON names the Python to make the environment with, of 3.11 to 3.14.
set -euo pipefail
PYTHON=${PYTHON:-python3}
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

rust() {
    local wanted=1.95.0 found install="curl https://sh.rustup.rs -sSf | sh -s -- -y && . ~/.cargo/env"
    if ! command -v cargo >/dev/null; then
        [ ! -x ~/.cargo/bin/cargo ] || fail "the Rust toolchain is not in PATH; put it there with: . ~/.cargo/env"
        fail "no Rust toolchain; install one with: $install"
    fi
    found=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" = "$wanted" ] && return
    ! command -v rustup >/dev/null || fail "Rust $found is too old, $wanted is needed; update with: rustup update stable"
    fail "Rust $found is too old, $wanted is needed; install a newer one with: $install"
}

system_packages() {
    local wanted=(g++ python3 python3-dev python3-venv libmlir-22-dev llvm-22-dev libpolly-22-dev libclang1-22
        libclang-common-22-dev libzstd-dev zlib1g-dev libxml2-dev) missing=() package
    for package in "${wanted[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    command -v apt-get >/dev/null || fail "this script knows apt only; what Debian calls these is to be installed by hand: ${missing[*]}"
    say "installing system packages (about 1.5 GB): ${missing[*]}"
    as_root apt-get update -qq
    available libmlir-22-dev || llvm_source
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# A browser to open the pages that `tputc check --format html` writes. Ubuntu's apt has none; without one, their tests
# are skipped.
browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome chrome; do
        ! command -v "$name" >/dev/null || return 0
    done
    available chromium-headless-shell || as_root apt-get update -qq
    available chromium-headless-shell || { say "apt has no chromium-headless-shell: the tests that need a browser are skipped"; return; }
    say "installing a headless browser for tests (about 300 MB)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null
}

# Whether apt has a version of a package to install.
available() {
    LC_ALL=C apt-cache policy "$1" | grep 'Candidate: [^(]' >/dev/null
}

# Debian 12 has LLVM 22 in its security archive, which a minimal system may not list; elsewhere LLVM's own archive has it.
llvm_source() {
    local id codename list=/etc/apt/sources.list.d/torchtpu-llvm-22.list key=/usr/share/keyrings/torchtpu-llvm.asc
    id=$(. /etc/os-release && echo "$ID")
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    if [ "$id $codename" = "debian bookworm" ]; then
        say "LLVM 22 is in Debian's security archive: adding it as $list"
        echo "deb http://deb.debian.org/debian-security bookworm-security main" | as_root tee "$list" >/dev/null
    else
        say "this system's archives have no LLVM 22: adding apt.llvm.org as $list"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ca-certificates curl >/dev/null
        curl -fsS https://apt.llvm.org/llvm-snapshot.gpg.key | as_root tee "$key" >/dev/null ||
            fail "cannot fetch LLVM's archive key; make libmlir-22-dev installable by hand and try again"
        echo "deb [signed-by=$key] https://apt.llvm.org/$codename/ llvm-toolchain-$codename-22 main" |
            as_root tee "$list" >/dev/null
    fi
    as_root apt-get update -qq
    available libmlir-22-dev || fail "no archive of apt's has libmlir-22-dev for ${id:-this system} $codename; remove $list"
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
    rm -f .venv/.bytecode
}

# Where Python may not write bytecode (containers set PYTHONDONTWRITEBYTECODE), each process would compile a thousand files
# of PyTorch's anew: 5 of the 11 seconds of a first torch.compile.
bytecode() {
    [ ! -e .venv/.bytecode ] || return 0
    say "compiling Python packages to bytecode"
    # Templates among them are no Python.
    .venv/bin/python -m compileall -qq -j 0 "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
    touch .venv/.bytecode
}

python_packages() {
    if [ ! -x .venv/bin/uv ]; then
        "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
            fail "$("$PYTHON" --version) is too old for PyTorch 2.15, 3.11 is needed; name a newer one: PYTHON=python3.13 $0"
        say "making a virtual environment in .venv"
        "$PYTHON" -m venv .venv
        .venv/bin/python -m pip install -q --disable-pip-version-check uv
    fi
    packages run
    packages build
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
[ "${1:-}" != develop ] || browser
python_packages "${1:-}"
bytecode
