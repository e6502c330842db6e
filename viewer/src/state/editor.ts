// Links that open a frame's file in an editor.

import { isText, inBrowser } from './in-browser';

/** The address of a line in Visual Studio Code. Other editors have similar ones: `idea://open?file={file}&line={line}`. */
export const DEFAULT_EDITOR = 'vscode://file{file}:{line}';

/** The address that opens `{file}` at `{line}`; empty: no links. */
export const editor = inBrowser('editor', (value) => (isText(value) && value.length < 500 ? value : undefined), DEFAULT_EDITOR);

/** Returns the address that opens a line; null for a file without an absolute path, and without a usable address. */
export function editorLink(template: string, file: string, line: number): string | null {
  const isAbsolute = /^(?:\/|[a-z]:[\\/])/i.test(file);
  // Only schemes of programs: a script or a page must not be behind the name of a file.
  const [, scheme] = /^([a-z][a-z0-9+.-]*):/i.exec(template) ?? [];
  if (!isAbsolute || scheme === undefined || /^(?:javascript|data|blob|file|https?|vbscript)$/i.test(scheme)) return null;
  const path = file.replaceAll('\\', '/').replace(/^(?!\/)/, '/');
  const escaped = path.split('/').map(encodeURIComponent).join('/');
  return template.replaceAll('{file}', escaped).replaceAll('{line}', String(Math.max(line, 1)));
}
