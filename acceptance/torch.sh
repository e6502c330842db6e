#!/usr/bin/env bash
# Checks releases of PyTorch on phantom GPUs: acceptance/torch.sh RELEASE... Installs each in target/torch-RELEASE (5 GB).
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"

check() {
    local release=$1 python="$PWD/target/torch-$1/bin/python" command="$PWD/target/debug/vramscope"
    environment "target/torch-$release"
    "$python" -m pip install --quiet --no-cache-dir "torch==$release" numpy nvidia-ml-py pytest
    # Libraries on top of PyTorch are tested with one release only.
    [ "$release" != 2.11.0 ] || "$python" -m pip install --quiet --no-cache-dir "torch==$release" \
        transformers==5.23.0 peft==0.21.2 accelerate==1.15.0 bitsandbytes==0.50.2 -r python/requirements-torch.txt
    say "our files, read by PyTorch $release"
    VRAMSCOPE_TORCH_PYTHON="$python" cargo test -p vramscope-trace -p vramscope-allocator pytorchs
    cargo build --quiet
    native
    say "PyTorch $release on phantom GPUs"
    acceptance/run.py --test --python "$python" --vramscope "$command"
    export PYTHONPATH="$PWD/python"
    say "the Python package's profiler and tools with PyTorch $release on a phantom GPU"
    "$command" phantom run --once -- "$python" -m pytest --quiet python/tests/profiler python/tests/integrations \
        python/tests/test_function_hooks_torch.py python/tests/test_book.py
    "$command" phantom run --once --gpus 2 -- "$python" -m pytest --quiet python/tests/integrations/test_pytest.py
    say "recordings of vramscope.torch with PyTorch $release, compared with independent tags"
    VRAMSCOPE_TORCH_PYTHON="$python" VRAMSCOPE_COMMAND="$command" "$python" -m pytest --quiet python/tests/test_torch*.py
}

for release in "$@"; do
    # A subshell, so that the environment of one release is not that of the next.
    (check "$release")
    # The next release needs 6 GB.
    [ "$(df --output=avail --block-size=1G . | tail -1)" -gt 6 ] || [ "$release" = "${!#}" ] || rm -r "target/torch-$release"
done
