#!/usr/bin/env bash
# Checks the feature `rollup`, which nothing else compiles: SQL, stores, clusters, and the page's console. The first time takes 15 minutes.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../../.ci/shell.sh"
.ci/tools.sh
export VRAMSCOPE_TOOLS_PYTHON="$PWD/target/tools/bin/python"
if ! target/tools/bin/python -c 'import boto3, moto.server, yaml' 2>/dev/null; then
    say "a small S3 server"
    target/tools/bin/pip install --quiet boto3 'moto[server]' pyyaml
fi
say "SQL, stores and clusters"
# Always use the same crates and features, so that their dependencies are compiled once. The book's queries are among the command's tests.
both=(-p vramscope-rollup -p vramscope-cli --features vramscope-cli/rollup --quiet)
cargo clippy "${both[@]}" --all-targets -- -D warnings
cargo test "${both[@]}" --lib --test rollup
cargo test "${both[@]}" --doc
cargo test "${both[@]}" --test cli -- book:: fleet:: dataset::
RUSTDOCFLAGS="-D warnings" cargo doc "${both[@]}" --no-deps
say "the SQL console of the page"
cargo build -p vramscope-cli --features rollup --quiet
viewer/check.sh --page
VRAMSCOPE="$PWD/target/debug/vramscope" VRAMSCOPE_PAGE="$PWD/target/page" npm --prefix viewer run browser -- browser/sql.test.ts
say "the manifests of examples/fleet"
target/tools/bin/python examples/fleet/check.py
