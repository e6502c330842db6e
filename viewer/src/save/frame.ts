// The frame of a saved picture, which makes it readable on its own: file, content, and the meaning of the colors.

import type { Pen } from '../draw/pen';
import { colorKeys, itemsBy, keysNow } from '../draw/item-colors';
import { shares } from '../draw/shares';
import { textWidth, type Font } from '../draw/text-width';
import { colorBy } from '../state/grouping';
import { current, recording } from '../state/recordings';
import { css, type Rgb } from '../style/colors';
import { inks } from '../style/theme';
import { baseName } from '../text/path';
import { bytes, count, deviceName, share } from '../text/units';
import type { Drawing } from './picture';

interface Entry {
  /** Null if it has no color. */
  color: Rgb | null;
  label: string;
  /** Bytes and share. */
  held: string;
}

/** The meaning of a picture's colors, and the bytes of each group. */
export interface PictureLegend {
  /** The moment of the shares, and their total. */
  title: string;
  entries: Entry[];
}

/** Returns the legend of pictures colored like the timeline, of `ranges` or of blocks; null while unknown, and for other pictures. */
export function legendOf(ranges: boolean): PictureLegend | null {
  const [listed, device] = [shares.value, current.value];
  if (!listed || !device || listed.reserved !== ranges) return null;
  if (!ranges && itemsBy.value !== colorBy.value) return null;
  const color = (ranges ? keysNow.value : colorKeys.value).color;
  const { groups, others, other_bytes: rest, bytes: all, moment, by } = listed;
  const entries: Entry[] = groups.map((group) => ({
    color: color(group.hue),
    label: group.label,
    held: `${bytes(group.bytes)}  ${share(group.bytes, all)}`,
  }));
  if (others > 0)
    entries.push({
      color: null,
      label: `${count(others)} ${others === 1 ? 'other' : 'others'}`,
      held: `${bytes(rest)}  ${share(rest, all)}`,
    });
  const at = moment === 0 ? 'at the start' : `after event ${count(moment - 1)}`;
  const peak = moment === device.peaks.allocated.moment ? ', the peak' : '';
  return { title: `Colors by ${by}. ${bytes(all)} ${ranges ? 'reserved' : 'allocated'} ${at}${peak}:`, entries };
}

const PAD = 12;
const TITLE_ROW = 22;
const ROW = 18;
const ENTRY_WIDTH = 300;
const TITLE: Font = { family: 'sans', size: 14, bold: true };

/** Adds a title and the legend to a drawing. `shows` names the content and its moment; `scale` explains the axes. */
export function framed(drawing: Drawing, shows: string, scale: string, legend: PictureLegend | null): Drawing {
  const name = baseName(recording.value?.name ?? '');
  const title = current.value ? `${name}, ${deviceName(current.value.device)}: ${shows}` : `${name}: ${shows}`;
  const width = Math.max(drawing.width, ENTRY_WIDTH + 2 * PAD);
  const columns = Math.max(Math.floor((width - 2 * PAD) / ENTRY_WIDTH), 1);
  const rows = legend ? Math.ceil(legend.entries.length / columns) : 0;
  const top = PAD + TITLE_ROW + ROW + 6;
  const below = legend ? PAD + ROW + rows * ROW : 0;
  return {
    ...drawing,
    width,
    height: top + drawing.height + below + PAD,
    draw: (pen) => {
      const { text, quiet } = inks.value;
      pen.text(PAD, PAD + TITLE_ROW / 2, title, { ...TITLE, color: text, room: width - 2 * PAD });
      pen.text(PAD, PAD + TITLE_ROW + ROW / 2, scale, { color: quiet, room: width - 2 * PAD });
      pen.moved(0, top, (moved) => drawing.draw(moved));
      if (legend) drawLegend(pen, legend, { top: top + drawing.height + PAD, columns, text, quiet });
    },
  };
}

interface Place {
  top: number;
  columns: number;
  text: string;
  quiet: string;
}

function drawLegend(pen: Pen, { title, entries }: PictureLegend, { top, columns, text, quiet }: Place): void {
  pen.text(PAD, top + ROW / 2, title, { color: text });
  entries.forEach(({ color, label, held }, i) => {
    const x = PAD + (i % columns) * ENTRY_WIDTH;
    const y = top + ROW * (1 + Math.floor(i / columns));
    if (color !== null) pen.fill(x, y + 4, 10, 10, css(color));
    const style = { color: quiet, size: 11.5 };
    const wide = textWidth(held, { family: 'sans', size: 11.5, bold: false });
    pen.text(x + 16, y + ROW / 2, label, { color: text, size: 11.5, room: ENTRY_WIDTH - 16 - wide - 20 });
    pen.text(x + ENTRY_WIDTH - 12, y + ROW / 2, held, { ...style, align: 'right' });
  });
}
