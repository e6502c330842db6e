// Prints a hash of the protocol between page and server: of the types that Rust declares (src/source/generated), without comments.
// crates/vramscope-viewer/page/protocol holds the hash that the committed page was built with.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, 'src/source/generated');
const files = readdirSync(folder).filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'));
const hash = createHash('sha256');
for (const name of files.sort()) {
  const code = readFileSync(join(folder, name), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
  hash.update(`${name} ${code.replace(/\s+/g, ' ')}`);
}
console.log(hash.digest('hex'));
