import { KINDS, type Counters } from '../source/source';
import { bytes, count } from '../text/units';

/** The four kinds of bytes in a row, each in its color. */
export function CounterRow({ counters }: { counters: Counters }) {
  return (
    <dl class="counters">
      {KINDS.map((kind) => (
        <div key={kind} class={`counter counter-${kind}`} title={`${count(counters[kind])} bytes`}>
          <dt>{kind}</dt>
          <dd>{bytes(counters[kind])}</dd>
        </div>
      ))}
    </dl>
  );
}
