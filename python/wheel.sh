#!/usr/bin/env bash
# Builds the wheel and installs it with pip in a new environment, without Rust in the path. It is not optimized, like all builds of the
# tests. It supports Linux with this machine's C library or a newer one. The release workflow builds the published wheels.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
say "the wheel"
python/environment.sh
rm -rf target/wheels
.ci/licenses.py
target/python/bin/maturin build --quiet --profile dev --strip --out target/wheels
.ci/licenses.py target/wheels/vramscope-*.whl
python3 -m venv --clear target/wheel
target/wheel/bin/pip install --quiet --no-index target/wheels/vramscope-*.whl
ls target/wheels
cd target/wheel
unset PYTHONPATH
export PATH=/usr/bin:/bin
bin/vramscope --version
bin/vramscope report ../../examples/oom.pickle >report.txt
grep -q "Out of memory" report.txt
bin/python -c 'import vramscope; assert vramscope.read("../../examples/oom.pickle").ooms()'
# The entry point that pytest looks for.
bin/python -c 'from importlib.metadata import entry_points
(plugin,) = entry_points(group="pytest11"); assert plugin.value == "vramscope.integrations.pytest"'
bin/pip uninstall --quiet --yes vramscope
[ -z "$(find . -iname "*vramscope*")" ]
