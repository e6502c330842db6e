#!/usr/bin/env bash
# Checks the Python package: format, lints, types, tests.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
say "the Python package"
python/environment.sh
target/python/bin/ruff format --check --quiet
target/python/bin/ruff check --quiet
target/python/bin/mypy --no-error-summary
target/python/bin/mypy --no-error-summary python/reference.py examples/python/*.py
PYTHONPATH="$PWD/python" target/python/bin/pytest --quiet --numprocesses "$(getconf _NPROCESSORS_ONLN)"
