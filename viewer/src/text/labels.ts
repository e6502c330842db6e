// Shortens names: the end of a path says more than its beginning.

/** A name in parts: a prefix, a path that may be cut at its beginning, and the name, which stays as long as there is room. */
export interface LabelParts {
  before: string;
  path: string;
  name: string;
}

/** The prefix of groups that were live before recording. */
const BEFORE = /^\(live before recording(, freed at)?\) /;

/** The kept segments at the end of a dotted path. */
const TOLD = 2;

/** Splits `model/attention.py:42 forward`, `forward (model/attention.py)`, `model.layers.0.mlp` or any other text. */
export function labelParts(label: string): LabelParts {
  const before = BEFORE.exec(label)?.[0] ?? '';
  const rest = label.slice(before.length);
  const function_ = /^(\S+ \()(\S*[/\\])(\S+\))$/.exec(rest);
  if (function_) return { before: before + function_[1], path: function_[2] ?? '', name: function_[3] ?? '' };
  const file = /^([^\s(]*[/\\])(\S.*)$/.exec(rest);
  if (file) return { before, path: file[1] ?? '', name: file[2] ?? '' };
  const segments = /^[^\s./:]+(\.[^\s./:]+)+$/.test(rest) ? rest.split('.') : [];
  if (segments.length <= TOLD || segments.at(-1) === 'py') return { before, path: '', name: rest };
  const name = segments.slice(-TOLD).join('.');
  return { before, path: rest.slice(0, -name.length), name };
}

/** Cuts a text to at most this many characters, keeping its end. */
export function endOf(text: string, most: number): string {
  const all = [...text];
  return all.length <= most ? text : `…${all.slice(1 - most).join('')}`;
}
