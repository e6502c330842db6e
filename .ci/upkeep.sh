#!/usr/bin/env bash
# Checks the packages of a release, their dependencies, and that the book builds. Compiles its tools the first time.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/shell.sh"

# Installs a cargo tool if it is missing.
cargo_tool() {
    command -v "$1" >/dev/null || cargo install --quiet --locked "$1"
}

say "licenses, duplicates, sources"
cargo_tool cargo-deny
cargo deny --all-features check licenses bans sources
# The list of known vulnerabilities is in a repository that not every machine can reach.
cargo deny --all-features check advisories || [ -z "${CI:-}" ]
say "unused dependencies"
cargo_tool cargo-machete
cargo machete
say "the public interface since the last release"
last=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
if [ -n "$last" ]; then
    cargo_tool cargo-semver-checks
    # The command has no Rust interface, the facade documents the macro's, and the other crates are not published.
    cargo semver-checks --workspace --baseline-rev "$last" --exclude vramscope-cli --exclude vramscope-macros \
        --exclude vramscope-bind --exclude vramscope-bench --exclude vramscope-rollup --exclude vramscope-testing
else
    echo "no tag v* to compare with"
fi
say "the crates as published"
cargo package --workspace --exclude vramscope-bench --exclude vramscope-testing --no-verify --allow-dirty --quiet
say "the book, with the reference of the Python package"
cargo_tool mdbook
mdbook build docs
python/environment.sh
PYTHONPATH="$PWD/python" target/python/bin/python python/reference.py target/book/python/reference
