// From answers as they are sent to what the page works with.

import type * as sent from './generated/view';
import { CATEGORIES, CODES, NONE, type Meaning, type Names, type Purpose, type Recording, type Steps } from './source';

/** A recording whose tags hold their texts; they are sent as positions in a list, each text once. */
export function toRecording({ devices, ...recording }: sent.Recording): Recording {
  return {
    ...recording,
    devices: devices.map(({ tags, tag_texts: texts, purposes, steps, ...device }) => {
      const text = (at: number | null) => (at === null ? null : (texts[at] ?? null));
      return {
        ...device,
        purposes: purposes && toPurposes(purposes),
        steps: steps && toSteps(steps),
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

export const toMeaning = ({ purposes, steps }: sent.Meaning): Meaning => ({
  purposes: toPurposes(purposes),
  steps: steps && toSteps(steps),
});

const toPurposes = (purposes: readonly sent.Purpose[]): Purpose[] =>
  purposes.map(({ category, because }) => ({ category: CATEGORIES[category] ?? 'unknown', because }));

/** Steps with both ends of each; they are sent with their bounds, for one begins where the one before ends. */
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

/** Labels are cut to so many characters: a file may give one name of any length to any number of frames. */
const LONGEST_LABEL = 500;
const cut = (text: string) => (text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL)}…` : text);

/** Names of frames with their texts, which are sent as positions in a list, and a label for each frame. */
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
