// Keys that work on the whole page. Tables, tabs and lists handle their own keys first.

import { signal } from '@preact/signals';
import { zoomToSelected } from '../search/found';
import { fit, jumpToMark, panBy, showBetween, stepMoment, zoom } from '../state/moves';
import { beginNote } from '../state/notes';
import { clearOperator, operator } from '../state/operators';
import { VIEWS, VIEW_NAMES, view } from '../state/place';
import { search } from '../state/search';
import { selected } from '../state/selection';
import { beginSpan, endSpan, interval } from '../state/interval';
import { nextPhase } from '../state/phases';
import { nextStep } from '../state/steps';
import { walkBlocks } from '../timeline/walk';

export const helpShown = signal(false);

export const SEARCH_ID = 'search';

interface Binding {
  /** Values of `KeyboardEvent.key`. */
  keys: string[];
  /** The keys as the help shows them. */
  shown: string;
  does: string;
  /** Whether the binding is skipped if the focused element uses the key itself, as with arrows. */
  plain?: boolean;
  act: (e: KeyboardEvent) => void;
}

const focus = (id: string) => document.getElementById(id)?.focus();
export const focusTimeline = () => focus('timeline');

/** The views with a key: a page of all ranks has more views than digits. */
const KEYED = VIEW_NAMES.slice(0, 9);

export const BINDINGS: Binding[] = [
  {
    keys: ['ArrowLeft', 'ArrowRight'],
    shown: '← →',
    does: 'Scroll; with Shift, farther',
    plain: true,
    act: (e) => panBy((e.key === 'ArrowLeft' ? -1 : 1) * (e.shiftKey ? 0.5 : 0.1)),
  },
  {
    keys: ['ArrowUp', 'ArrowDown'],
    shown: '↑ ↓',
    does: 'Previous or next moment; with Shift, by 100',
    plain: true,
    act: (e) => stepMoment((e.key === 'ArrowUp' ? -1 : 1) * (e.shiftKey ? 100 : 1)),
  },
  {
    keys: [',', '.'],
    shown: ', .',
    does: 'Previous or next moment, with any focus',
    act: (e) => stepMoment(e.key === ',' ? -1 : 1),
  },
  { keys: ['+', '=', '-'], shown: '+ −', does: 'Zoom in and out', act: (e) => zoom(e.key === '-' ? 1.5 : 1 / 1.5) },
  {
    keys: ['w', 'a', 's', 'd', 'W', 'A', 'S', 'D'],
    shown: 'w s, a d',
    does: 'Zoom in and out, scroll; with Shift, farther',
    act: (e) => steer(e.key.toLowerCase(), e.shiftKey),
  },
  { keys: ['0', 'Home'], shown: '0, Home', does: 'Show everything', act: fit },
  { keys: ['z'], shown: 'z', does: 'Zoom to the selected allocation, or to the interval', act: zoomToChoice },
  {
    keys: ['PageUp', 'PageDown'],
    shown: 'PgUp PgDn',
    does: 'Select the block above or below in the stack at the moment; at first, the largest',
    plain: true,
    act: (e) => walkBlocks(e.key === 'PageUp' ? 1 : -1),
  },
  {
    keys: ['[', ']'],
    shown: '[ ]',
    does: 'Begin or end the interval at the moment',
    act: (e) => (e.key === '[' ? beginSpan() : endSpan()),
  },
  {
    keys: ['c'],
    shown: 'c',
    does: 'Write a note on the interval, or on the moment',
    act: writeNote,
  },
  {
    keys: ['m', 'M'],
    shown: 'm',
    does: 'Next mark (out of memory, snapshot); with Shift, the previous',
    act: (e) => jumpToMark(e.key === 'M' ? -1 : 1),
  },
  {
    keys: ['n', 'N'],
    shown: 'n',
    does: 'Step at the moment, then the next step; with Shift, the previous',
    act: (e) => nextStep(e.key === 'N' ? -1 : 1),
  },
  {
    keys: ['p', 'P'],
    shown: 'p',
    does: 'Phase at the moment, then the next phase; with Shift, the previous',
    act: (e) => nextPhase(e.key === 'P' ? -1 : 1),
  },
  {
    keys: KEYED.map((_, i) => String(i + 1)),
    shown: `1 to ${KEYED.length}`,
    does: KEYED.map((name) => VIEWS[name]).join(', '),
    act: (e) => (view.value = KEYED[Number(e.key) - 1] ?? view.value),
  },
  {
    keys: ['/'],
    shown: '/',
    does: 'Search; Enter for the next match, Shift Enter for the previous',
    act: () => focus(SEARCH_ID),
  },
  { keys: ['g'], shown: 'g', does: 'Focus the timeline', act: focusTimeline },
  { keys: ['Escape'], shown: 'Esc', does: 'Leave the search; clear the selection, the interval, then the search', act: clear },
  { keys: ['?'], shown: '?', does: 'Show these keys', act: () => (helpShown.value = !helpShown.value) },
];

/** Handles the left-hand keys, as in trace viewers and games. */
function steer(key: string, isFar: boolean): void {
  const factor = isFar ? 3 : 1.5;
  if (key === 'w' || key === 's') zoom(key === 's' ? factor : 1 / factor);
  else panBy((key === 'a' ? -1 : 1) * (isFar ? 0.5 : 0.1));
}

function zoomToChoice(): void {
  if (selected.value !== null) zoomToSelected();
  else if (interval.value) showBetween(interval.value);
}

function writeNote(): void {
  view.value = 'timeline';
  beginNote(null);
}

function clear(): void {
  if (selected.value !== null) selected.value = null;
  else if (operator.value !== null) clearOperator();
  else if (interval.value !== null) interval.value = null;
  else search.value = '';
}

/** The pointer gestures on the timeline, for the help. */
export const GESTURES: [string, string][] = [
  ['Click', 'Choose the moment and the allocation'],
  ['Drag', 'Scroll'],
  ['Shift drag', 'Choose an interval, to see its allocations and frees; so does dragging along the axis'],
  ['Wheel', 'Zoom at the pointer; sideways, scroll'],
  ['Shift wheel', 'Zoom bytes; so does dragging the axis of bytes'],
  ['Alt drag', 'Show only a part; so does dragging in the minimap'],
  ['Double click', 'Zoom to the block; again, or beside blocks, show everything; on the axis of bytes, fit'],
];

const TYPING = 'input:not([type=radio], [type=checkbox], [type=range]), textarea, [contenteditable]';
/** Elements that handle arrow keys themselves. */
const OWN_ARROWS =
  'select, input, [role=grid], [role=tablist], [role=listbox], [role=menu], [role=tree], [role=treegrid], [role=slider]:not(#timeline)';

function pressed(e: KeyboardEvent): void {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || !(e.target instanceof Element)) return;
  if (e.target.closest(TYPING) || document.querySelector('dialog[open], :popover-open')) return;
  const binding = BINDINGS.find((b) => b.keys.includes(e.key));
  if (!binding) return;
  if (e.target.closest('select') || (binding.plain && e.target.closest(OWN_ARROWS))) return;
  // Arrow keys scroll a panel that overflows.
  if (binding.plain && e.target !== document.body && !e.target.closest('#timeline') && scrolls(e.target)) return;
  e.preventDefault();
  binding.act(e);
}

function scrolls(from: Element): boolean {
  for (let at: Element | null = from; at; at = at.parentElement) {
    if (at.scrollHeight > at.clientHeight + 1 && getComputedStyle(at).overflowY === 'auto') return true;
  }
  return false;
}

export function followKeys(): void {
  window.addEventListener('keydown', pressed);
}
