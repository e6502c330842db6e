// The lines of a source file with their memory.

import { numberAt } from '../../numbers/at';
import type { LineFinding, SourceLines } from '../../source/source';

/** The most shown characters of a line. */
const LONGEST = 1000;

/** The memory of a line, or of a file. */
export interface Row {
  frame: number;
  line: number;
  live: number;
  own: number;
  allocated: number;
  count: number;
}

export const rowsOf = (of: SourceLines): Row[] =>
  Array.from(of.line, (line, i) => ({
    line,
    frame: numberAt(of.frame, i),
    live: numberAt(of.live, i),
    own: numberAt(of.own, i),
    allocated: numberAt(of.allocated, i),
    count: numberAt(of.count, i),
  }));

/** A line of the file. */
export interface Line extends Partial<Row> {
  number: number;
  text: string | null;
  findings: LineFinding[];
}

/** Returns all lines of the text, and those with memory; without a text, those with memory alone. */
export function linesOf(rows: readonly Row[], findings: readonly LineFinding[], text: string | null): Line[] {
  const texts = text === null ? [] : text.replace(/\n$/, '').split('\n');
  const lines = new Map<number, Line>();
  const at = (number: number): Line => {
    const line = lines.get(number) ?? { number, text: texts[number - 1]?.slice(0, LONGEST) ?? null, findings: [] };
    lines.set(number, line);
    return line;
  };
  texts.forEach((_, i) => at(i + 1));
  for (const row of rows) Object.assign(at(row.line), row);
  for (const finding of findings) at(finding.line).findings.push(finding);
  return [...lines.values()].sort((a, b) => a.number - b.number);
}

/** Returns the lines with memory, those with most first: by live bytes, or if none are live, by all allocated bytes. */
export function hotLines(lines: readonly Line[]): Line[] {
  const live = lines.filter((line) => (line.live ?? 0) > 0);
  if (live.length > 0) return live.sort((a, b) => (b.live ?? 0) - (a.live ?? 0));
  return lines.filter((line) => (line.allocated ?? 0) > 0).sort((a, b) => (b.allocated ?? 0) - (a.allocated ?? 0));
}
