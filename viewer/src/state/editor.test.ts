import { expect, test } from 'vitest';
import { DEFAULT_EDITOR, editorLink } from './editor';

test.each([
  ['/home/me/train.py', 31, 'vscode://file/home/me/train.py:31'],
  ['/home/me/my model.py', 0, 'vscode://file/home/me/my%20model.py:1'],
  ['C:\\runs\\train.py', 3, 'vscode://file/C%3A/runs/train.py:3'],
  ['/x/{line}/a"b.py', 3, 'vscode://file/x/%7Bline%7D/a%22b.py:3'],
])('%s', (file, line, link) => expect(editorLink(DEFAULT_EDITOR, file, line)).toBe(link));

test('frames without an absolute path have no link', () => {
  for (const file of ['', '??', 'train.py', '<frozen runpy>', 'at::native::add'])
    expect(editorLink(DEFAULT_EDITOR, file, 1)).toBeNull();
});

test('only schemes of programs are opened', () => {
  for (const template of ['javascript:alert(1)//{file}', 'data:text/html,{file}', 'https://host/{file}', '', 'editor {file}'])
    expect(editorLink(template, '/a.py', 1)).toBeNull();
  expect(editorLink('idea://open?file={file}&line={line}', '/a.py', 7)).toBe('idea://open?file=/a.py&line=7');
});
