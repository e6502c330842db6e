#!/usr/bin/env bash
# Runs the public tests of the profilers with the same names as ours, with PyTorch on a phantom GPU. Every differing test is listed with
# its reason. Needs ./test --torch.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
python="$PWD/target/torch-2.11.0/bin/python"
[ -x "$python" ] || { echo "run ./test --torch first" >&2; exit 1; }
"$python" -m pip install --quiet --no-cache-dir jsonschema pandas psutil pytest scipy
cargo build --quiet
native
say "the tests of gpumemprof and stormlog on our profiler"
PYTHONPATH="$PWD/python" target/debug/vramscope phantom run --once -- "$python" python/tests/peers/check.py target/peers
