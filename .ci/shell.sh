# Shared by ./test and its parts, which source this file. The current folder is the root of the repository.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Incremental build data is useless for a single build, and as large as the build itself.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Every build of the project's crates also lints them: clippy's driver is the compiler with lints. A pass of `cargo clippy` would check all
# crates and their dependencies once more.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings

# The crates of the quick tests. Ballista takes long to compile, and the page's engine is WebAssembly.
CRATES=(--workspace --exclude vramscope-rollup --exclude vramscope-wasm --exclude vramscope-bind)

export VRAMSCOPE_TEST_BEGAN="${VRAMSCOPE_TEST_BEGAN:-$(date +%s)}"

# Names the step that begins, and how long this run has taken (minutes:seconds).
say() {
    local seconds=$(($(date +%s) - VRAMSCOPE_TEST_BEGAN))
    printf '\n== %s (%d:%02d)\n' "$*" $((seconds / 60)) $((seconds % 60))
}

# Installs the Debian packages of missing programs: need PROGRAM PACKAGES...
need() {
    local missing=()
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo)
    "${root[@]}" apt-get update -qq
    # One argument may name several packages.
    # shellcheck disable=SC2068
    "${root[@]}" apt-get install -y -qq ${missing[@]}
}

# Makes a Python environment in a folder, if it has none.
environment() {
    # Debian ships the venv module in a separate package.
    python3 -c 'import ensurepip' 2>/dev/null || need ensurepip python3-venv
    [ -x "$1/bin/python" ] || python3 -m venv "$1"
}

# Builds all programs and libraries. The crates and their features are those of `cargo test`, so that no library is compiled again.
build() {
    cargo build "${CRATES[@]}" --lib --bins --tests --quiet
}

# Builds the native part of the Python package, and links it into the package's sources.
native() {
    build
    ln -sf ../../target/debug/lib_native.so python/vramscope/_native.abi3.so
}
