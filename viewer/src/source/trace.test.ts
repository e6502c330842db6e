import { expect, test } from 'vitest';
import { isTrace } from './trace';

const TRACE = `\n  {\n    "schemaVersion": 1,\n "traceEvents": [${Array.from({ length: 4000 }, (_, n) => `{"name": "[memory]", "ts": ${n * n}.25}`).join()}]}`;
const file = (...parts: BlobPart[]) => new File(parts, 'x.json');
const gzip = (text: string) => new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).blob();

test('traces of torch.profiler are recognized by their first key', async () => {
  expect(await isTrace(file(TRACE))).toBe(true);
  const packed = await gzip(TRACE);
  // Only the beginning of the file is unpacked.
  expect(packed.size).toBeGreaterThan(10_000);
  expect(await isTrace(file(packed))).toBe(true);
  expect(await isTrace(file('{"segments": [], "schemaVersion": 1}'))).toBe(false);
  expect(await isTrace(file(await gzip('{"segments": []}')))).toBe(false);
  expect(await isTrace(file(''))).toBe(false);
  expect(await isTrace(file(Uint8Array.from([0x1f, 0x8b, 0, 1, 2, 3])))).toBe(false);
});
