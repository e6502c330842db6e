#!/usr/bin/env bash
# Compares with CuPy's own pool and hooks. CuPy can be built without CUDA, for its documentation. In that build, a stub replaces the
# runtime; the patch below makes it report two devices. The first time takes 8 minutes.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
python="$PWD/target/cupy/bin/python" release=14.2.0
if ! "$python" -c 'import chainer, cupy, pytest' 2>/dev/null || [ ! -d target/cupy/tests ]; then
    say "CuPy $release, built without CUDA"
    python3 -m venv target/cupy
    CUPY_INSTALL_USE_STUB=1 "$python" -m pip download --quiet --no-cache-dir --no-binary cupy --no-deps \
        --dest target/cupy/source "cupy==$release"
    tar -xzf "target/cupy/source/cupy-$release.tar.gz" -C target/cupy/source
    # CuPy's own tests of its hooks.
    mkdir -p target/cupy/tests
    (cd "target/cupy/source/cupy-$release/tests/cupy_tests/cuda_tests" &&
        cp memory_hooks_tests/test_*.py test_memory_hook.py "$OLDPWD/target/cupy/tests")
    sed -i -e '/^cudaError_t cudaGetDevice(...)/,/^}/c cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }' \
        -e '/^cudaError_t cudaGetDeviceCount(...)/,/^}/c cudaError_t cudaGetDeviceCount(int* count) { *count = 2; return cudaSuccess; }' \
        "target/cupy/source/cupy-$release/cupy_backends/stub/cupy_cuda_runtime.h"
    "$python" -c 'import cupy' 2>/dev/null ||
        CUPY_INSTALL_USE_STUB=1 CUPY_NUM_BUILD_JOBS=$(nproc) "$python" -m pip install --quiet --no-cache-dir \
            "./target/cupy/source/cupy-$release"
    # Chainer has one of CuPy's hooks. Its setup script needs features that newer environments lack.
    "$python" -m pip install --quiet --no-cache-dir pytest 'setuptools<70' wheel
    "$python" -m pip install --quiet --no-cache-dir --no-build-isolation chainer==7.8.1
    rm -r target/cupy/source
fi
native
say "compare with CuPy $release"
PYTHONPATH="$PWD/python" "$python" -m pytest --quiet python/tests/test_cupy_*.py
say "CuPy's own hook tests on our hooks"
PYTHONPATH="$PWD/python:$PWD/python/tests:$PWD/python/tests/peers" "$python" -m pytest --quiet -p cupys --rootdir target/cupy/tests \
    target/cupy/tests
VRAMSCOPE_CUPY_PYTHON="$python" cargo test --quiet -p vramscope-allocator --test pool cupys
[ -x target/torch-2.11.0/bin/python ] || { echo "CuPy with PyTorch: run ./test --torch first"; exit; }
say "CuPy and PyTorch in one pool"
both="$PWD/target/cupy-torch"
python3 -m venv "$both"
for folder in target/torch-2.11.0 target/cupy; do
    (cd "$folder" && ls -d "$PWD"/lib/python3*/site-packages)
done >"$(ls -d "$both"/lib/python3*/site-packages)/both.pth"
VRAMSCOPE_TORCH_PYTHON="$both/bin/python" VRAMSCOPE_COMMAND="$PWD/target/debug/vramscope" PYTHONPATH="$PWD/python" \
    "$python" -m pytest --quiet python/tests/test_torch_cupy.py
