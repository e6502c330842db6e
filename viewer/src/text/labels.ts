// Names of groups in little room: the end of a path tells more than its beginning.

/** A name in parts: what stands first, what may be cut at its beginning, and what is told as long as there is room. */
export interface LabelParts {
  before: string;
  path: string;
  name: string;
}

/** Before the names of groups of what was live before recording. */
const BEFORE = /^\(live before recording(, freed at)?\) /;

/** The last segments of a dotted path that are told. */
const TOLD = 2;

/** The parts of `model/attention.py:42 forward`, of `forward (model/attention.py)`, of `model.layers.0.mlp` or of any other text. */
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

/** A text of at most so many characters: of a longer one the end. */
export function endOf(text: string, most: number): string {
  const all = [...text];
  return all.length <= most ? text : `…${all.slice(1 - most).join('')}`;
}
