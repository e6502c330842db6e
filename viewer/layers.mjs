// The page's folders, from the lowest layer to the highest. A file may import from its own folder and from lower layers only. `npm run
// lint` fails otherwise. Biome finds cycles within a folder.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const LAYERS = [
  'text', //     formatting of numbers, paths and errors
  'numbers', //  arithmetic of columns and ranges
  'source', //   questions about a recording, and engines that answer them
  'style', //    colors and the theme
  'state', //    open files, shown parts, the address
  'names', //    formatting of stacks, pools and tags
  'search', //   the search language and its matches
  'draw', //     pictures as pixels, rectangles and lines
  'save', //     tables and pictures as files
  'parts', //    tables, lists, graphs and maps, for any view
  'timeline', // the timeline above every view
  'views', //    one folder for each view, with everything that only it uses
  'shell', //    tabs, keys, help, files
  'app', //      the whole page
  'main', //     the entry point
  'carried', //  the start-up script of a self-contained page
];

const src = join(import.meta.dirname, 'src');
/** Returns the layer of a path, by its folder, or by its file beside the folders. */
const layerOf = (path) => LAYERS.indexOf(relative(src, path).split(/[/.]/)[0]);

const files = readdirSync(src, { recursive: true }).filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'));
const wrong = [];
for (const name of files) {
  const file = join(src, name);
  const from = layerOf(file);
  if (from < 0) wrong.push(`${name} is in none of the folders listed in viewer/layers.mjs`);
  for (const [, target] of readFileSync(file, 'utf8').matchAll(/(?:from|import) *\(?'(\.[^']*)'/g)) {
    const path = join(dirname(file), target);
    if (from >= 0 && layerOf(path) > from) wrong.push(`${name} imports ${relative(src, path)} from a higher layer`);
  }
}
for (const line of wrong) console.error(line);
if (wrong.length > 0) {
  console.error(`The layers, lowest first: ${LAYERS.join(', ')} (viewer/layers.mjs).`);
  process.exit(1);
}
