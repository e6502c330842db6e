#!/usr/bin/env bash
# Builds the page's WebAssembly engine (crates/vramscope-wasm): its compressed code into OUT/engine.wasm.lzma (default: the page's
# folder), the compiler's version into OUT/engine.compiler, and the JavaScript bindings into viewer/src/source/generated. The same
# sources, compiler and tools produce the same bytes.
#
#   viewer/engine.sh [OUT]
#
# Needs the sources of Rust's standard library, which is built for size, and xz. On Debian:
# apt-get install rustc-web cargo-web rust-web-src lld-19 xz-utils. Elsewhere: rustup component add rust-src.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-crates/vramscope-viewer/page}")
root=$PWD
glue=$root/viewer/src/source/generated

# The library and the tool must have the same version.
release=$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
tools=$root/target/tools
if ! "$tools/bin/wasm-bindgen" --version 2>/dev/null | grep -qF "$release"; then
    # A debug build takes a minute and writes the same bytes.
    cargo install --quiet --root "$tools" --debug --bin wasm-bindgen --version "$release" wasm-bindgen-cli
fi

cargo=cargo linker=()
if [ -x /usr/bin/rustc ] && [ -e "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
    cargo=/usr/bin/cargo
    export RUSTC=/usr/bin/rustc
    linker=(--config 'target.wasm32-unknown-unknown.linker="wasm-ld-19"')
fi
# Unstable features: the standard library built for size, and no panic texts. Chrome 91, Firefox 89, Safari 16.4 and later have the
# simd128 instructions.
export RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0
export RUSTFLAGS="-Zunstable-options -Cpanic=immediate-abort -Ctarget-feature=+simd128 --remap-path-prefix=$root=vramscope --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
"$cargo" build --quiet --profile wasm -p vramscope-wasm --target wasm32-unknown-unknown --target-dir target/wasm \
    -Z build-std=std,panic_abort -Z build-std-features=optimize_for_size "${linker[@]}"
"$tools/bin/wasm-bindgen" --target web --remove-name-section --remove-producers-section \
    --out-dir target/wasm/bound target/wasm/wasm32-unknown-unknown/wasm/vramscope_wasm.wasm
mkdir -p "$out"
# Another compiler produces other bytes.
{ "${RUSTC:-rustc}" --version; [ ${#linker[@]} = 0 ] || wasm-ld-19 --version; } >"$out/engine.compiler"
# A sixth smaller than deflate. `viewer/src/source/lzma.ts` decompresses it.
xz --threads=1 --stdout --format=lzma --lzma1=preset=9e,lc=4,lp=0,pb=0,nice=273 \
    target/wasm/bound/vramscope_wasm_bg.wasm >"$out/engine.wasm.lzma"
cp target/wasm/bound/vramscope_wasm.js target/wasm/bound/vramscope_wasm.d.ts "$glue/"
