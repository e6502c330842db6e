// From bundles to the types of source.ts.

import { f64, u16, u32, u8, type Bundle } from './bundle';
import { CODES, type Counters, type Device, type Events, type Found, type Layout, type Live, type Names, type Picture, type Recording, type Regions, type Segments, type Tags, type Window } from './source';

/** As told: texts of tags by their position in `tag_texts`. */
export type ToldRecording = Omit<Recording, 'devices'> & { devices: ToldDevice[] };
type ToldDevice = Omit<Device, 'tags'> & { tags: ToldTags[]; tag_texts: string[] };
type ToldTags = Pick<Tags, 'stream' | 'pool'> & Record<'category' | 'compile_context' | 'user_metadata', number | null>;

export function toRecording({ devices, ...told }: ToldRecording): Recording {
  return {
    ...told,
    devices: devices.map(({ tags, tag_texts: texts, ...device }) => {
      const text = (at: number | null) => (at === null ? null : texts[at]!);
      return {
        ...device,
        tags: tags.map((t) => ({
          stream: t.stream,
          pool: t.pool,
          category: text(t.category),
          compile_context: text(t.compile_context),
          user_metadata: text(t.user_metadata),
        })),
      };
    }),
  };
}

/** Longer names are cut where people read them: nobody can, and a file may give one to any number of frames. */
const LONGEST_LABEL = 500;
const cut = (text: string) => (text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL)}…` : text);

export function toNames(b: Bundle<{ texts: string[] }>): Names {
  const { texts } = b.json;
  const short = texts.map(cut);
  const [file, shortFile, name, shortName] = ['file', 'short_file', 'function', 'short_function'].map((n) => u32(b, n)) as
    [Uint32Array, Uint32Array, Uint32Array, Uint32Array];
  const line = Array.from(u32(b, 'line'));
  const code = Array.from(u8(b, 'code'), (n) => CODES[n]!);
  return {
    label: code.map((of, i) =>
      of === 'native' ? short[shortName[i]!]! : `${short[shortFile[i]!]}:${line[i]} ${short[shortName[i]!]}`),
    file: Array.from(file, (n) => texts[n]!),
    line,
    function: Array.from(name, (n) => texts[n]!),
    code,
    ends: u32(b, 'ends'),
    frames: u32(b, 'frames'),
    own: u32(b, 'own'),
  };
}

export function toPicture(b: Bundle<{ low: number; high: number }>, window: Window): Picture {
  return {
    window,
    low: b.json.low,
    high: b.json.high,
    column: u32(b, 'column'),
    moment: u32(b, 'moment'),
    start: u32(b, 'start'),
    item: u32(b, 'item'),
    end: u16(b, 'end'),
    items: {
      id: u32(b, 'id'),
      address: f64(b, 'address'),
      bytes: f64(b, 'bytes'),
      // Requested bytes alone are not those of the block.
      size: f64(b, b.columns.has('size') ? 'size' : 'bytes'),
      from: u32(b, 'from'),
      to: u32(b, 'to'),
      stack: u32(b, 'stack'),
      tags: u32(b, 'tags'),
    },
    highest: {
      requested: f64(b, 'requested'),
      allocated: f64(b, 'allocated'),
      active: f64(b, 'active'),
      reserved: f64(b, 'reserved'),
    },
  };
}

export function toLive(b: Bundle<{ moment: number; counters: Counters }>): Live {
  return {
    ...b.json,
    stack: u32(b, 'stack'),
    tags: u32(b, 'tags'),
    origin: u8(b, 'origin'),
    bytes: f64(b, 'bytes'),
    requested: f64(b, 'requested'),
    count: u32(b, 'count'),
  };
}

export function toLayout(b: Bundle<{ moment: number; counters: Counters }>): Layout {
  return {
    ...b.json,
    segments: {
      address: f64(b, 'segment_address'),
      bytes: f64(b, 'segment_bytes'),
      tags: u32(b, 'segment_tags'),
      kind: u8(b, 'segment_kind'),
      expandable: u8(b, 'segment_expandable'),
      stack: u32(b, 'segment_stack'),
      from: u32(b, 'segment_from'),
    },
    blocks: {
      allocation: u32(b, 'block_allocation'),
      address: f64(b, 'block_address'),
      bytes: f64(b, 'block_bytes'),
      requested: f64(b, 'block_requested'),
      pending: u8(b, 'block_pending'),
      stack: u32(b, 'block_stack'),
      tags: u32(b, 'block_tags'),
      from: u32(b, 'block_from'),
    },
  };
}

export function toEvents(b: Bundle<{ first: number }>): Events {
  return {
    first: b.json.first,
    action: u8(b, 'action'),
    address: f64(b, 'address'),
    bytes: f64(b, 'bytes'),
    time_us: f64(b, 'time_us'),
    stack: u32(b, 'stack'),
    tags: u32(b, 'tags'),
    allocation: u32(b, 'allocation'),
  };
}

export function toFound(b: Bundle<{ count: number; bytes: number }>): Found {
  return {
    ...b.json,
    id: u32(b, 'id'),
    address: f64(b, 'address'),
    size: f64(b, 'size'),
    from: u32(b, 'from'),
    to: u32(b, 'to'),
    stack: u32(b, 'stack'),
    tags: u32(b, 'tags'),
  };
}

export function toRegions(b: Bundle<{ names: string[] }>): Regions {
  return {
    names: b.json.names,
    name: u32(b, 'name'),
    depth: u8(b, 'depth'),
    from: u32(b, 'from'),
    to: u32(b, 'to'),
    from_us: f64(b, 'from_us'),
    to_us: f64(b, 'to_us'),
  };
}

export function toSegments(b: Bundle<Pick<Segments, 'pools'>>): Segments {
  return {
    pools: b.json.pools,
    address: f64(b, 'address'),
    bytes: f64(b, 'bytes'),
    from: u32(b, 'from'),
    to: u32(b, 'to'),
    tags: u32(b, 'tags'),
    kind: u8(b, 'kind'),
    expandable: u8(b, 'expandable'),
    stack: u32(b, 'stack'),
  };
}
