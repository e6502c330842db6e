import type { Group } from '../../parts/holders';
import { StackTrace } from '../../parts/stack-trace';
import { NONE } from '../../source/source';
import type { Side } from './side';

/** The stack of a row, of B where it is there. */
export function StackOf({ row, a, b }: { row: Group; a: Side; b: Side }) {
  const inB = row.stack !== NONE;
  return (
    <StackTrace
      file={inB ? b.file : a.file}
      stack={inB ? row.stack : row.stackBefore}
      heading={`Stack that holds most of it in ${inB ? 'B' : 'A'}`}
    />
  );
}
