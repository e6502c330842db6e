#!/usr/bin/env bash
# Builds the engine that answers the page in a browser (crates/vramscope-wasm): its code, compressed, into
# OUT/engine.wasm.gz (default: the folder of the page), and the code that calls it into viewer/src/source/generated.
#
#   viewer/engine.sh [OUT]
#
# Needs the sources of Rust's standard library, which is built for size. Debian has them, with a compiler of their own:
# apt-get install rustc-web cargo-web rust-web-src lld-19. Elsewhere: rustup component add rust-src.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-crates/vramscope-viewer/page}")
root=$PWD
glue=$root/viewer/src/source/generated

# Unstable features: the standard library built for size, and no panic texts. Chrome 91, Firefox 89, Safari 16.4 and later have the
# simd128 instructions.
flags="-Zunstable-options -Cpanic=immediate-abort -Ctarget-feature=+simd128"
flags+=" --remap-path-prefix=$root=vramscope --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
# `./test` lints with a driver of another compiler.
compiler=(env -u RUSTC_WORKSPACE_WRAPPER RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 "RUSTFLAGS=$flags") linker=()
if [ -x /usr/bin/rustc ] && [ -e "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
    compiler+=(RUSTC=/usr/bin/rustc /usr/bin/cargo)
    linker=(--config 'target.wasm32-unknown-unknown.linker="wasm-ld-19"')
else
    compiler+=(cargo)
fi
"${compiler[@]}" build --quiet --profile wasm -p vramscope-wasm --target wasm32-unknown-unknown --target-dir target/wasm \
    -Z build-std=std,panic_abort -Z build-std-features=optimize_for_size "${linker[@]}"
cargo run --quiet -p vramscope-bind -- "target/wasm/wasm32-unknown-unknown/wasm/vramscope_wasm.wasm" target/wasm/bound
mkdir -p "$out"
gzip -9 --no-name --stdout target/wasm/bound/vramscope_wasm_bg.wasm >"$out/engine.wasm.gz"
cp target/wasm/bound/vramscope_wasm.js target/wasm/bound/vramscope_wasm.d.ts "$glue/"
