/** The file name at the end of a path, with the separators of any system. */
export const baseName = (path: string) => path.split(/[/\\]/).pop() || path;
