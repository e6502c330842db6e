// The built command: where it is, and what it makes of recordings.

import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** The command under test: VRAMSCOPE, or what cargo built last. */
export const command = process.env['VRAMSCOPE'] ?? newest();

function newest(): string {
  const found = ['release', 'debug'].map((kind) => join(root, 'target', kind, 'vramscope')).find(existsSync);
  if (!found) throw new Error('build the command first: cargo build --release');
  return found;
}

/** A recording in the repository. */
export const example = (name: string) => join(root, 'examples', name);

/** Larger recordings, where they lie beside the checkout; else null. */
export const data: string | null =
  [process.env['VRAMSCOPE_DATA'], join(root, '../shared/data')].find((d) => d !== undefined && existsSync(d)) ?? null;

export const scratch = () => mkdtempSync(join(tmpdir(), 'vramscope-'));

/** A served page; `stop` ends the command. */
export interface Served {
  url: string;
  process: ChildProcess;
  stop: () => void;
}

export const serve = (...files: string[]): Promise<Served> => served(['view', '--no-open', ...files]);

/** The page of all ranks of a job, whose folder is named as it is seen from `cwd`. */
export const serveRanks = (folder: string, cwd?: string): Promise<Served> =>
  served(['fleet', folder, '--view', '--no-open', '--no-cache'], cwd);

async function served(words: string[], cwd?: string): Promise<Served> {
  const process = spawn(command, words, { stdio: ['ignore', 'pipe', 'inherit'], ...(cwd ? { cwd } : {}) });
  const url = await new Promise<string>((told, failed) => {
    process.stdout!.once('data', (line: Buffer) => told(line.toString().trim()));
    process.once('exit', (code) => failed(new Error(`vramscope ${words[0]} ended with ${code}`)));
  });
  return { url, process, stop: () => process.kill() };
}

/** Writes a self-contained page and tells where it is. */
export function writePage(...files: string[]): string {
  const page = join(scratch(), 'page.html');
  execFileSync(command, ['view', '--html', page, ...files], { stdio: 'pipe' });
  return page;
}

/** The recordings of a job, and what was done to which ranks (bench/src/fleet_of.rs). */
export interface Job {
  folder: string;
  leaks: number;
  larger_stage: number[];
  out_of_memory: [number, number];
  broken: [number, number, number];
}

/** Makes the recordings of so many ranks, a multiple of eight. */
export function jobOf(ranks: number): Job {
  const tool = join(command, '../fleet-of');
  if (!existsSync(tool)) throw new Error('build it first: cargo build -p vramscope-bench --bin fleet-of');
  const folder = join(scratch(), 'recordings');
  return { folder, ...JSON.parse(execFileSync(tool, [folder, String(ranks), '7'], { encoding: 'utf8' })) };
}

/** What the command answers with `--json`. */
function answer(...words: string[]): any {
  const told = spawnSync(command, [...words, '--json'], { encoding: 'utf8', maxBuffer: 1 << 28 });
  // 1 is an answer, too: something was found.
  if (told.status !== 0 && told.status !== 1) throw new Error(told.stderr);
  return JSON.parse(told.stdout);
}

export const report = (file: string, ...words: string[]): any => answer('report', file, ...words);

export const fleet = (folder: string): any => answer('fleet', folder, '--no-cache');

/** What the command prints. */
export const printed = (...words: string[]): string => spawnSync(command, words, { encoding: 'utf8' }).stdout;

export const diff = (a: string, b: string, ...options: string[]): any => answer('diff', a, b, ...options);

export const replay = (file: string, ...words: string[]): any => answer('replay', file, ...words);

/** The error of the command, without its name. */
export const refusal = (...words: string[]): string => spawnSync(command, words, { encoding: 'utf8' }).stderr;
