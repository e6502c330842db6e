// Lays out reserved ranges as tracks: one per place in memory, and one per expandable segment, in which pieces are mapped and unmapped.
// Heights are CSS pixels.

import { poolText } from '../../names/tags';
import { entryAt, numberAt } from '../../numbers/at';
import { firstThat } from '../../numbers/bisect';
import type { Segments, Tags } from '../../source/source';

export const HEADING = 24;
const GAP = 2;
const GROUP_GAP = 8;
const MIB = 1 << 20;

export interface Track {
  expandable: boolean;
  /** Positions in `Segments`. */
  members: number[];
  top: number;
  height: number;
}

/** The vertical extent of a range; its ends are on the axis. */
export interface Bar {
  segment: number;
  y: number;
  height: number;
}

export interface TrackGroup {
  label: string;
  top: number;
  ranges: number;
}

export interface Tracks {
  groups: TrackGroup[];
  tracks: Track[];
  /** One bar per range, from top to bottom. */
  bars: Bar[];
  height: number;
}

/** Returns the height of a track. It grows with the logarithm of its bytes, so that 2 MiB is visible next to 10 GiB. */
function heightOf(bytes: number, expandable: boolean): number {
  const doublings = Math.max(Math.log2(Math.max(bytes, 1) / (2 * MIB)), 0);
  return expandable ? Math.min(24 + 9 * doublings, 160) : Math.min(Math.round(4 + 2 * doublings), 26);
}

/** Groups ranges into tracks: those that overlap, or all expandable ones of a kind. `members` must be sorted by address. */
function places(members: readonly number[], s: Segments): { expandable: boolean; members: number[] }[] {
  const found: { expandable: boolean; members: number[] }[] = [];
  const expandable = new Map<number, number[]>();
  let end = -1;
  for (const i of members) {
    if (s.expandable[i]) {
      const known = expandable.get(numberAt(s.kind, i));
      if (known) known.push(i);
      else {
        const first = [i];
        expandable.set(numberAt(s.kind, i), first);
        found.push({ expandable: true, members: first });
      }
      continue;
    }
    if (numberAt(s.address, i) < end) found.findLast((p) => !p.expandable)!.members.push(i);
    else found.push({ expandable: false, members: [i] });
    end = Math.max(end, numberAt(s.address, i) + numberAt(s.bytes, i));
  }
  return found;
}

/** Computes the bytes that ranges cover together, and how many of them are before an address. `members` must be sorted by address. */
function coverage(members: readonly number[], s: Segments) {
  const ends: { from: number; to: number; before: number }[] = [];
  let total = 0;
  for (const i of members) {
    const from = numberAt(s.address, i);
    const to = from + numberAt(s.bytes, i);
    const last = ends.at(-1);
    if (last && from <= last.to) {
      total += Math.max(to - last.to, 0);
      last.to = Math.max(last.to, to);
    } else {
      ends.push({ from, to, before: total });
      total += to - from;
    }
  }
  let at = 0;
  /** Returns the covered bytes before an address. Call it with ascending addresses. */
  const before = (address: number) => {
    while (entryAt(ends, at).to < address || (ends[at + 1]?.from ?? Infinity) <= address) at += 1;
    return entryAt(ends, at).before + address - entryAt(ends, at).from;
  };
  return { total, before };
}

/** The most that the heights of tracks are multiplied by. */
const MOST_STRETCHED = 4;

/** Lays out tracks that are higher where there is room for more than their heights, in CSS pixels. */
export function fitTracks(s: Segments, tags: readonly Tags[], room: number): Tracks {
  const laid = layTracks(s, tags);
  const heights = laid.tracks.reduce((sum, { height }) => sum + height, 0);
  const stretch = Math.min((room - laid.height + heights) / heights, MOST_STRETCHED);
  return stretch > 1 ? layTracks(s, tags, stretch) : laid;
}

/** Lays out tracks; `stretch` multiplies their heights. */
export function layTracks(s: Segments, tags: readonly Tags[], stretch = 1): Tracks {
  const groups = new Map<string, number[]>();
  for (let i = 0; i < s.address.length; i++) {
    const label = poolText(tags[numberAt(s.tags, i)]);
    const known = groups.get(label);
    if (known) known.push(i);
    else groups.set(label, [i]);
  }
  const laid: Tracks = { groups: [], tracks: [], bars: [], height: 0 };
  let y = 0;
  for (const [label, members] of [...groups].sort((a, b) => b[1].length - a[1].length)) {
    laid.groups.push({ label, top: y, ranges: members.length });
    y += HEADING;
    members.sort((a, b) => numberAt(s.address, a) - numberAt(s.address, b) || numberAt(s.from, a) - numberAt(s.from, b));
    for (const place of places(members, s)) {
      const { total, before } = coverage(place.members, s);
      const height = Math.floor(heightOf(total, place.expandable) * stretch);
      laid.tracks.push({ ...place, top: y, height });
      for (const i of place.members) {
        const from = (before(numberAt(s.address, i)) / total) * height;
        laid.bars.push({ segment: i, y: y + from, height: Math.max((numberAt(s.bytes, i) / total) * height, 1) });
      }
      y += height + GAP;
    }
    y += GROUP_GAP;
  }
  laid.height = y;
  return laid;
}

/** The greatest height of a track (see `heightOf`). */
const HIGHEST = 160 * MOST_STRETCHED;

/** Returns the bars that reach into the part between two heights. */
export function barsBetween(bars: readonly Bar[], top: number, bottom: number): Bar[] {
  const first = firstThat(0, bars.length, (i) => entryAt(bars, i).y >= top - HIGHEST);
  const seen: Bar[] = [];
  for (let i = first; i < bars.length && entryAt(bars, i).y < bottom; i++)
    if (entryAt(bars, i).y + entryAt(bars, i).height > top) seen.push(entryAt(bars, i));
  return seen;
}
