// The call tree of live memory, as a flame graph or as a table, with one set of transforms for both.

import { useMemo, useState } from 'preact/hooks';
import { callTreeAs, callZoom, isInverted } from '../../state/grouping';
import { actionsOf, actWithKey, isMenuKey } from '../../parts/call-actions';
import { CallMenu } from './call-menu';
import { CallTable } from './call-table';
import type { CallTreePart, CallTreeProps } from './call-part';
import { follow, stepsTo, type Node } from '../../parts/calls';
import { Button, Segmented } from '../../parts/controls';
import { FlameGraph } from './flame-graph';

const UNZOOMED: readonly number[] = [];

const AS = [
  { value: 'flame', label: 'Flame graph' },
  { value: 'table', label: 'Table' },
] as const;

export function CallTree(p: CallTreeProps) {
  const [focusPath, setFocusPath] = useState<number[] | null>(null);
  const [menu, setMenu] = useState<{ node: Node; x: number; y: number } | null>(null);
  const zoomPath = callZoom.value ?? UNZOOMED;
  const zoomed = useMemo(() => follow(p.root, zoomPath), [p.root, zoomPath]);
  const focused = useMemo(() => focusPath && follow(p.root, focusPath), [p.root, focusPath]);
  const focus = (node: Node) => setFocusPath(stepsTo(node));
  const zoom = (node: Node) => {
    const steps = stepsTo(node);
    callZoom.value = steps.length > 0 ? steps : null;
    setFocusPath(steps);
  };
  const openMenu = (node: Node, x: number, y: number) => {
    focus(node);
    if (actionsOf(node, p.names).length > 0) setMenu({ node, x, y });
  };
  const press: CallTreePart['press'] = (e, node, place) => {
    if (isMenuKey(e)) {
      const { x, y } = place();
      openMenu(node, x, y);
      return true;
    }
    return actWithKey(e, node, p.names);
  };
  const at = focused ?? zoomed;
  const controls = (
    <>
      <Segmented label="Show as" choices={AS} value={callTreeAs.value} choose={(as) => (callTreeAs.value = as)} />
      <Button
        label={`Transform ${at.label}`}
        disabled={actionsOf(at, p.names).length === 0}
        onClick={(e) => {
          const { left, bottom } = e.currentTarget.getBoundingClientRect();
          openMenu(at, left, bottom + 4);
        }}
      >
        Transform
      </Button>
      {zoomed !== p.root && <Button onClick={() => zoom(p.root)}>Reset zoom</Button>}
    </>
  );
  const label = isInverted.value ? 'Call tree, inverted' : 'Call tree';
  const part: CallTreePart = { ...p, label, zoomed, zoom, focused, focus, openMenu, press, controls };
  return (
    <>
      {callTreeAs.value === 'table' ? <CallTable {...part} /> : <FlameGraph {...part} />}
      {menu && (
        <CallMenu
          name={menu.node.label}
          actions={actionsOf(menu.node, p.names)}
          x={menu.x}
          y={menu.y}
          close={() => setMenu(null)}
        />
      )}
    </>
  );
}
