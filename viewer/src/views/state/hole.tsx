// The chosen hole: its size, its age, and the blocks around it.

import { numberAt } from '../../numbers/at';
import { useAnswer } from '../../parts/answer';
import { momentText, type Current } from '../../parts/current';
import { StackTrace } from '../../parts/stack-trace';
import { Facts } from '../../parts/tooltip';
import { NONE, type Holes, type Layout } from '../../source/source';
import { selected } from '../../state/selection';
import { hole } from '../../state/hole';
import { source } from '../../state/recordings';
import { address, bytes, count } from '../../text/units';

interface HoleDetailsProps {
  shown: Current;
  holes: Holes;
  layout: Layout;
  /** Its position. */
  at: number;
}

export function HoleDetails({ shown, holes, layout, at }: HoleDetailsProps) {
  const { file, device, scope, recording } = shown;
  const where = numberAt(holes.address, at);
  const answer = useAnswer(scope, `${holes.moment} ${where}`, (unwanted) =>
    source.ask(file, device, { question: 'hole', moment: holes.moment, address: where }, unwanted),
  );
  // Not the previous hole's answer.
  const since = answer.pending ? null : answer.value;
  const size = numberAt(holes.bytes, at);
  const facts: [string, string, string?][] = [
    ['size', bytes(size), `${count(size)} bytes`],
    ['address', address(where)],
    [
      'free since',
      since ? `${momentText(since.since, recording)}${since.allocation === null ? ', when it was reserved' : ''}` : '…',
    ],
  ];
  if (holes.whole[at]) facts.push(['a whole segment', 'can be returned to the device']);
  return (
    <section class="fact-section" aria-label="Hole" aria-busy={since === null} data-hole={where} data-bytes={size}>
      <h3>
        {hole.value === null ? 'Largest hole for the request' : 'Hole'}
        {hole.value !== null && (
          <button type="button" class="link-button" onClick={() => (hole.value = null)}>
            Clear
          </button>
        )}
      </h3>
      <Facts facts={facts} />
      <Neighbour name="Before the hole" allocation={numberAt(holes.before, at)} layout={layout} file={file} />
      <Neighbour name="After the hole" allocation={numberAt(holes.after, at)} layout={layout} file={file} />
      {since && since.free_stack !== NONE && (
        <StackTrace file={file} stack={since.free_stack} heading="Stack of the last free here" />
      )}
    </section>
  );
}

interface NeighbourProps {
  name: string;
  allocation: number;
  layout: Layout;
  file: number;
}

function Neighbour({ name, allocation, layout: { blocks }, file }: NeighbourProps) {
  const b = allocation === NONE ? -1 : blocks.allocation.indexOf(allocation);
  if (b < 0) return <p class="quiet">{name}: the edge of the segment.</p>;
  const size = numberAt(blocks.bytes, b);
  return (
    <>
      <p>
        {name}: a block of <span title={`${count(size)} bytes`}>{bytes(size)}</span>
        {blocks.pending[b] ? ', freed and pending' : ''}.{' '}
        <button type="button" class="link-button" onClick={() => (selected.value = allocation)}>
          Select the block {name.toLowerCase()}
        </button>
      </p>
      <StackTrace file={file} stack={numberAt(blocks.stack, b)} heading={`${name}: stack`} />
    </>
  );
}
