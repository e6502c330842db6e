// The categories of the memory at the peak, and the evidence for them.

import { Fragment } from 'preact';
import { batch } from '@preact/signals';
import { categoryText } from '../../names/tags';
import type { CategoryBytes, CategoryReason } from '../../source/generated/report';
import { CATEGORIES, type Category, type Device } from '../../source/source';
import { groupBy } from '../../state/grouping';
import { chooseMoment } from '../../state/moves';
import { view } from '../../state/place';
import { categoryColor, css } from '../../style/colors';
import { dark } from '../../style/theme';
import { bytes, count, share } from '../../text/units';
import { BytesCell, Card, TableHead } from './card';

interface CategoriesProps {
  categories: readonly CategoryBytes[];
  reasons: readonly CategoryReason[];
  peak: Device['peaks']['allocated'];
}

/** The most reasons shown per category; the others hold less. */
const MOST_REASONS = 3;

export function CategoriesCard({ categories, reasons, peak }: CategoriesProps) {
  if (!categories.some(({ category }) => category !== 'preexisting' && category !== 'unknown')) return null;
  return (
    <Card title={`Categories of the ${bytes(peak.bytes)} at the peak`}>
      <table class="numbers">
        <TableHead columns={{ Category: 'words', Blocks: 'numeric', Bytes: 'numeric', Share: 'numeric' }} />
        <tbody>
          {withWorkspaces(categories, reasons).map(({ category, bytes: held, count: blocks }) => (
            <Fragment key={category}>
              <tr data-category={category}>
                <th scope="row" class="wide">
                  <Swatch category={category} />
                  {categoryText(nameOf(category))}
                </th>
                <td class="numeric">{count(blocks)}</td>
                <BytesCell n={held} />
                <td class="numeric">{share(held, peak.bytes)}</td>
              </tr>
              {reasons
                .filter((reason) => reason.category === category)
                .slice(0, MOST_REASONS)
                .map((reason) => (
                  <tr key={reason.because} class="quiet reason">
                    <td class="wide">{reason.because}</td>
                    <td class="numeric">{count(reason.count)}</td>
                    <BytesCell n={reason.bytes} />
                    <td />
                  </tr>
                ))}
            </Fragment>
          ))}
        </tbody>
      </table>
      <p class="finding-links">
        <button type="button" class="link-button" onClick={() => showBy('category', peak.moment)}>
          Show as a table, by category
        </button>
      </p>
    </Card>
  );
}

/** The rows of the report, with a row of their own for workspaces, which the report counts as `temporary`. */
function withWorkspaces(categories: readonly CategoryBytes[], reasons: readonly CategoryReason[]): CategoryBytes[] {
  const of = reasons.filter(({ category }) => category === 'workspace').reduce((sum, reason) => sum + reason.count, 0);
  const rows = categories.flatMap((row) => {
    const apart = row.workspace_bytes ?? 0;
    if (apart === 0) return [row];
    const workspaces = { category: 'workspace', bytes: apart, count: of };
    return [workspaces, { ...row, bytes: row.bytes - apart, count: row.count - of }].filter(({ count: blocks }) => blocks > 0);
  });
  return rows.sort((a, b) => b.bytes - a.bytes);
}

const nameOf = (category: string): Category => CATEGORIES.find((one) => one === category) ?? 'unknown';

function Swatch({ category }: { category: string }) {
  return <span class="swatch-category" style={{ background: css(categoryColor(nameOf(category), dark.value)) }} />;
}

/** Shows the memory live at a moment, grouped. */
function showBy(by: 'category', moment: number): void {
  batch(() => {
    groupBy.value = by;
    view.value = 'moment';
    chooseMoment(moment);
  });
}
