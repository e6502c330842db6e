// The page's folders from the ground up: a file imports from its own folder and from those that stand before it here, never
// from one that comes later. `npm run lint` fails where an import runs up. Circles within a folder are biome's to find.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const LAYERS = [
  'text', //     numbers, paths and errors in words
  'numbers', //  arithmetic of columns and ranges
  'source', //   what can be asked of a recording, and who answers
  'style', //    colours and the theme
  'state', //    what is open and shown; the address
  'names', //    stacks, pools and tags in words
  'search', //   the language of the search box, and what it finds
  'draw', //     pictures as pixels, rectangles and lines
  'save', //     tables and pictures as files
  'parts', //    tables, lists, graphs and maps, for any view
  'timeline', // the stacked picture above every view
  'views', //    one file a view
  'shell', //    tabs, keys, help, files
  'app', //      everything put together
  'main', //     the beginning
  'carried', //  the beginning of a page that carries everything
];

const src = join(import.meta.dirname, 'src');
/** The place in the list of the folder, or of the file beside the folders, in which a path lies. */
const layerOf = (path) => LAYERS.indexOf(relative(src, path).split(/[/.]/)[0]);

const files = readdirSync(src, { recursive: true }).filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'));
const wrong = [];
for (const name of files) {
  const file = join(src, name);
  const from = layerOf(file);
  if (from < 0) wrong.push(`${name} lies in none of the folders that viewer/layers.mjs lists`);
  for (const [, target] of readFileSync(file, 'utf8').matchAll(/(?:from|import) *\(?'(\.[^']*)'/g)) {
    const path = join(dirname(file), target);
    if (from >= 0 && layerOf(path) > from) wrong.push(`${name} imports ${relative(src, path)}, which stands above it`);
  }
}
for (const line of wrong) console.error(line);
if (wrong.length > 0) {
  console.error(`The order, from the ground up: ${LAYERS.join(', ')} (viewer/layers.mjs).`);
  process.exit(1);
}
