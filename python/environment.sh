#!/usr/bin/env bash
# Installs the checking tools of the Python package in target/python, and builds the package's native part.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
environment target/python
target/python/bin/python -m pip install --quiet --require-virtualenv -r python/requirements.txt
native
