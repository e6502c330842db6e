const SEPARATOR = /[/\\]/;

/** Returns the file name at the end of a path, with the separators of any system. */
export const baseName = (path: string) => path.split(SEPARATOR).pop() || path;

/** Returns as many last parts of each path as distinguish it from the others: `a/train.py` and `b/train.py`. Equal paths stay equal. */
export function shortPaths(paths: readonly string[]): string[] {
  const unlike = [...new Set(paths)];
  return paths.map((path) => {
    const parts = path.split(SEPARATOR).filter((part) => part !== '');
    const ends = (other: string, many: number) =>
      other
        .split(SEPARATOR)
        .filter((part) => part !== '')
        .slice(-many)
        .join('/');
    for (let many = 1; many < parts.length; many += 1) {
      const end = parts.slice(-many).join('/');
      if (unlike.every((other) => other === path || ends(other, many) !== end)) return end;
    }
    return parts.length === 1 ? (parts[0] ?? path) : path;
  });
}
