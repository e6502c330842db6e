#!/usr/bin/env bash
# Builds the page from its sources in target/page, and checks it: types, format, lints, the order of folders, unit tests, and every view in a
# browser.
#
#   viewer/check.sh             the command's server answers the page; saved pages have the committed engine
#   viewer/check.sh --worker    the engine in the page answers; it is built from its sources, which takes long
#   viewer/check.sh --page      without a browser
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
if [ "${1:-}" = --worker ]; then
    say "the engine of the page"
    # Debian has a compiler for it; elsewhere rustup has the sources that it lacks.
    [ -d /usr/lib/rustlib/src/rust/library ] || need wasm-ld-19 lld-19 rust-web-src "rustc-web cargo-web rust-web-src" ||
        rustup component add rust-src
    viewer/engine.sh target/page
else
    mkdir -p target/page
    cp crates/vramscope-viewer/page/engine.wasm.gz target/page
fi

say "the page"
need node nodejs npm npm
# Registries fail occasionally.
npm --prefix viewer ci --silent --prefer-offline || npm --prefix viewer ci --prefer-offline
(
    cd viewer
    npm run --silent types
    npm run --silent lint
    for mode in production worker carried; do
        npx vite build --mode $mode --outDir ../target/page --logLevel warn
    done
    npx vitest run src
)
# The committed copy may be older, and must speak the same protocol.
node viewer/protocol.mjs | cmp - crates/vramscope-viewer/page/protocol || {
    echo "crates/vramscope-viewer/page speaks an older protocol: run viewer/refresh.sh and commit the result" >&2
    exit 1
}
[ "${1:-}" != --page ] || exit 0

say "the page in a browser"
# The headless shell takes half the time of Chromium, but not every system has it.
command -v chromium-headless-shell >/dev/null || (need chromium-headless-shell chromium-headless-shell) || need chromium chromium
build
export VRAMSCOPE="$PWD/target/debug/vramscope" VRAMSCOPE_PAGE="$PWD/target/page"
[ "${1:-}" != --worker ] || export VRAMSCOPE_TRANSPORT=worker
npm --prefix viewer run browser
