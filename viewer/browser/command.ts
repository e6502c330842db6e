// The built command, and its outputs for recordings.

import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** The command under test: VRAMSCOPE, or cargo's latest build. */
export const command = process.env['VRAMSCOPE'] ?? newest();

function newest(): string {
  const found = ['release', 'debug'].map((kind) => join(root, 'target', kind, 'vramscope')).find(existsSync);
  if (!found) throw new Error('build the command first: cargo build --release');
  return found;
}

/** Returns the path of a recording in the repository. */
export const example = (name: string) => join(root, 'examples', name);

/** Returns the path of a recording with recorded categories: `base`, or a changed one. */
export const tagged = (name: string) => example(`../crates/vramscope-cli/tests/cli/diff/tagged-${name}.pickle.zst`);

/** The folder of larger recordings next to the checkout, or null. */
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

/** Serves the page of all ranks of a job; `cwd` is the base of the folder's path. */
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

/** Writes a self-contained page and returns its path. */
export function writePage(...files: string[]): string {
  const page = join(scratch(), 'page.html');
  execFileSync(command, ['view', '--html', page, ...files], { stdio: 'pipe' });
  return page;
}

/** A job's recordings, and the faults injected into its ranks (bench/src/fleet_of.rs). */
export interface Job {
  folder: string;
  leaks: number;
  larger_stage: number[];
  out_of_memory: [number, number];
  broken: [number, number, number];
}

/** Creates the recordings of this many ranks, a multiple of eight. */
export function jobOf(ranks: number): Job {
  const tool = join(command, '../fleet-of');
  if (!existsSync(tool)) throw new Error('build it first: cargo build -p vramscope-bench --bin fleet-of');
  const folder = join(scratch(), 'recordings');
  return { folder, ...JSON.parse(execFileSync(tool, [folder, String(ranks), '7'], { encoding: 'utf8' })) };
}

/** Returns the command's `--json` output. */
function answer(...words: string[]): any {
  const told = spawnSync(command, [...words, '--json'], { encoding: 'utf8', maxBuffer: 1 << 28 });
  // Exit code 1 is an answer too: a finding.
  if (told.status !== 0 && told.status !== 1) throw new Error(told.stderr);
  return JSON.parse(told.stdout);
}

export const report = (file: string, ...words: string[]): any => answer('report', file, ...words);

export const fleet = (folder: string): any => answer('fleet', folder, '--no-cache');

/** Returns the command's output. */
export const printed = (...words: string[]): string => spawnSync(command, words, { encoding: 'utf8' }).stdout;

export const diff = (a: string, b: string, ...options: string[]): any => answer('diff', a, b, ...options);

export const replay = (file: string, ...words: string[]): any => answer('replay', file, ...words);

/** Returns the command's error without the command's name. */
export const refusal = (...words: string[]): string => spawnSync(command, words, { encoding: 'utf8' }).stderr;
