// Recognizes traces of `torch.profiler`.

/** The bytes at the beginning of a file that show its first key. */
const START = 4096;

/** Whether a file is a trace of `torch.profiler`, by its first key, compressed with gzip or not. */
export async function isTrace(file: File): Promise<boolean> {
  const start = file.slice(0, START);
  const head = new Uint8Array(await start.slice(0, 2).arrayBuffer());
  const isGzip = head[0] === 0x1f && head[1] === 0x8b;
  const bytes = isGzip ? await unpacked(start) : new Uint8Array(await start.arrayBuffer());
  return /^\uFEFF?\s*\{\s*"schemaVersion"\s*:/.test(new TextDecoder().decode(bytes));
}

/** Returns the first bytes of a compressed text; nothing if it is damaged. */
async function unpacked(start: Blob): Promise<Uint8Array> {
  const reader = start.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  try {
    return (await reader.read()).value ?? new Uint8Array();
  } catch {
    return new Uint8Array();
  } finally {
    // The rest of the file is missing, so the stream fails.
    reader.cancel().catch(() => {});
  }
}
