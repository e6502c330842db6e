// The static site on a plain file server, below a path.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize, resolve } from 'node:path';
import { scratch } from './command';

/** File types that any server knows. Others, including the engine's WebAssembly, are served as bytes. */
const KINDS: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webmanifest': 'application/manifest+json',
};

export interface Site {
  url: string;
  /** The requests so far: paths below the site. */
  asked: string[];
  /** Whether the server no longer answers. Cutting a page's network does not cut that of its service worker. */
  refuse: boolean;
  stop: () => void;
}

/** Builds the site and serves it. */
export async function serveSite(): Promise<Site> {
  const folder = scratch();
  execFileSync('node', [resolve(import.meta.dirname, '../../site/build.mjs'), folder]);
  const site: Site = {
    url: '',
    asked: [],
    refuse: false,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url!, 'http://site').pathname.replace(/^\/any\/path\//, ''));
    site.asked.push(path);
    try {
      if (site.refuse) throw new Error('nobody is there');
      const bytes = readFileSync(join(folder, path === '.' || path === '/' ? 'index.html' : path));
      response.setHeader('content-type', KINDS[extname(path) || '.html'] ?? 'application/octet-stream');
      response.end(bytes);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('the server of the site has no address');
  site.url = `http://127.0.0.1:${address.port}/any/path/`;
  return site;
}
