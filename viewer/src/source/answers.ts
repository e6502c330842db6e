// Converts answers from their wire format to the page's types.

import type * as sent from './generated/questions';
import {
  CATEGORIES,
  CODES,
  NONE,
  type Meaning,
  type Names,
  type Purpose,
  type Phases,
  type Recording,
  type Steps,
} from './source';

/** Resolves the texts of a recording's tags, which are sent as positions in a list of distinct texts. */
export function toRecording({ devices, ...recording }: sent.Recording): Recording {
  return {
    ...recording,
    devices: devices.map(({ tags, tag_texts: texts, purposes, steps, phases, ...device }) => {
      const text = (at: number | null) => (at === null ? null : (texts[at] ?? null));
      return {
        ...device,
        purposes: purposes && toPurposes(purposes),
        steps: steps && toSteps(steps),
        phases: phases && toPhases(phases),
        tags: tags.map((t) => ({
          stream: t.stream,
          pool: t.pool,
          layer: text(t.layer),
          recorded_category: text(t.recorded_category),
          compile_context: text(t.compile_context),
          user_metadata: text(t.user_metadata),
        })),
      };
    }),
  };
}

export const toMeaning = ({ purposes, steps, phases }: sent.Meaning): Meaning => ({
  purposes: toPurposes(purposes),
  steps: steps && toSteps(steps),
  phases: phases && toPhases(phases),
});

const toPurposes = (purposes: readonly sent.Purpose[]): Purpose[] =>
  purposes.map(({ category, because }) => ({ category: CATEGORIES[category] ?? 'unknown', because }));

/** Returns steps with both ends each; the wire format has only bounds, because a step begins where the previous one ends. */
function toSteps({ bounds, bounds_us, ...steps }: sent.Steps): Steps {
  const places = Uint32Array.from(bounds);
  const times = Float64Array.from(bounds_us);
  return {
    ...steps,
    from: places.subarray(0, -1),
    to: places.subarray(1),
    from_us: times.subarray(0, -1),
    to_us: times.subarray(1),
  };
}

const toPhases = (phases: sent.Phases): Phases => ({
  ...phases,
  from: Uint32Array.from(phases.from),
  to: Uint32Array.from(phases.to),
  from_us: Float64Array.from(phases.from_us),
  to_us: Float64Array.from(phases.to_us),
});

/** The most characters of a label; a file may give any number of frames names of any length. */
const LONGEST_LABEL = 500;
const cut = (text: string) => (text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL)}…` : text);

/** Resolves the texts of frame names, which are sent as positions in a list, and builds a label per frame. */
export function toNames(names: sent.Names): Names {
  const { texts } = names;
  const short = texts.map(cut);
  const line = Array.from(names.line);
  const code = Array.from(names.code, (n) => CODES[n] ?? 'native');
  const [files, functions] = [Array.from(names.short_file, (n) => short[n]), Array.from(names.short_function, (n) => short[n])];
  return {
    label: code.map((of, i) => (of === 'native' ? (functions[i] ?? '') : `${files[i]}:${line[i]} ${functions[i]}`)),
    file: Array.from(names.file, (n) => texts[n] ?? ''),
    line,
    function: Array.from(names.function, (n) => texts[n] ?? ''),
    code,
    short_file: Array.from(names.short_file, (n, i) => (code[i] === 'native' ? '' : (texts[n] ?? ''))),
    short_function: Array.from(names.short_function, (n) => texts[n] ?? ''),
    library: Array.from(names.library, (n) => texts[n] ?? null),
    ends: names.ends,
    frames: names.frames,
    own: names.own,
    generated: new Map(
      Array.from(names.generated, (frame, i) => {
        const text = (at: number) => texts[at]?.trimEnd() ?? null;
        return [frame, { node: text(names.node[i] ?? NONE), original: text(names.original[i] ?? NONE) }];
      }),
    ),
  };
}
