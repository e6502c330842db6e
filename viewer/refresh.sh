#!/usr/bin/env bash
# Builds the engine and the page into crates/vramscope-viewer/page, whose files are committed so that cargo alone builds the command.
# Run it before a release, and when ./test says that the committed page speaks another protocol.
set -euo pipefail
cd "$(dirname "$0")/.."
viewer/engine.sh
npm --prefix viewer run build
npm --prefix viewer sbom --omit=dev --sbom-format=cyclonedx --sbom-type=application >crates/vramscope-viewer/page/sbom.cdx.json
node viewer/protocol.mjs >crates/vramscope-viewer/page/protocol
