// The query of the SQL console, earlier queries, and the chart of a result.

import { batch, signal } from '@preact/signals';
import { anyText, inAddress, oneOf } from '../../state/in-address';
import { isText, inBrowser } from '../../state/in-browser';

/** The query whose result is shown; empty: none. */
export const sql = inAddress('sql', anyText, '');

/** The number of queries that were run: the same query can run again. */
export const runs = signal(0);

/** The text in the editor. It stays while other views are shown. */
export const draft = signal<string | null>(null);

export const CHARTS = ['table', 'bars', 'line'] as const;
export type Chart = (typeof CHARTS)[number];
/** How the result is shown. */
export const chart = inAddress('chart', oneOf(CHARTS), 'table');

/** The names of the columns of a chart; null: the first that fit. */
export const chartLabel = inAddress('chartlabel', anyText, null);
export const chartValue = inAddress('chartvalue', anyText, null);

/** The maximum number of earlier queries. */
const MOST_EARLIER = 20;

const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

/** Earlier queries of this browser, the newest first. */
export const earlierQueries = inBrowser('sql', (value) => (isTexts(value) ? value.slice(0, MOST_EARLIER) : undefined), []);

/** Runs a query and shows its result in a way; without one, as the former result. */
export function runQuery(text: string, shownAs?: Chart): void {
  batch(() => {
    draft.value = null;
    sql.value = text;
    runs.value += 1;
    earlierQueries.value = [text, ...earlierQueries.value.filter((one) => one !== text)].slice(0, MOST_EARLIER);
    if (shownAs === undefined) return;
    chart.value = shownAs;
    chartLabel.value = null;
    chartValue.value = null;
  });
}
