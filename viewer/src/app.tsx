/// <reference types="vite/types/importMeta.d.ts" />
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { itemsBy } from './draw/item-colors';
import { shownPicture } from './draw/shown';
import { Boundary } from './shell/boundary';
import { Devices } from './shell/devices';
import { Split } from './parts/split';
import { DropTarget } from './shell/drop';
import { Help } from './shell/help';
import { OpeningDialog } from './shell/open-files';
import { Reading } from './shell/reading';
import { Start } from './shell/start';
import { Tabs } from './shell/tabs';
import { TopBar } from './shell/top-bar';
import { Transforms } from './shell/transforms';
import { Trouble } from './shell/trouble';
import { needGroups } from './state/groups';
import { isOfRanks, readProgress } from './state/files';
import { device, file, isOfJob, scope, view } from './state/place';
import { reading } from './state/ranks';
import { current, needNames, needMeaning, recording, recordings } from './state/recordings';
import { trouble } from './state/trouble';
import { reason } from './text/reason';
import { TimelineControls } from './timeline/controls';
import { tall } from './timeline/model';
import { Timeline } from './timeline/timeline';

/** The components of the views (state/place.ts), by their files. */
const PANELS = import.meta.glob<() => JSX.Element | null>('./views/*/view.tsx', { eager: true, import: 'View' });

function Nothing() {
  if (recordings.value === null && trouble.value !== null) {
    return (
      <p class="page-note" role="status">
        No recording is open.
      </p>
    );
  }
  if (recordings.value === null)
    return (
      <Reading
        what={isOfRanks ? 'Reading the recordings of all ranks.' : 'Reading the recording.'}
        progress={readProgress.value}
      />
    );
  if (reading.value !== null) return <Reading what="Reading the recording of this rank." />;
  if (recording.value) return <p class="page-note">This file has no device data: there is nothing to show.</p>;
  return <Start />;
}

/** The timeline beside its details, and as a strip above the other views. */
const BESIDE = { name: 'details', pane: 'details', panes: 'beside', sized: 'second', initial: '330px', least: 200 } as const;
const ABOVE = { name: 'timeline', pane: 'timeline', panes: 'above', sized: 'first', initial: 'auto', least: 120 } as const;

export function App() {
  const number = file.value;
  const open = current.value !== null;
  const shown = view.value;
  // The ranks view belongs to no single recording.
  const hasTimeline = open && shown !== 'ranks';
  const hasPanel = hasTimeline || (isOfJob(shown) && recordings.value !== null);
  // If reading the names failed, showing another view asks for them again.
  useEffect(() => {
    if (open) needNames(number).catch((e: unknown) => (trouble.value = reason(e)));
  }, [number, open, shown]);
  // For a long recording, categories are computed after its first picture is drawn.
  const position = device.value;
  const drawn = shownPicture.value !== null;
  useEffect(() => {
    if (open && drawn) needMeaning(number, position).catch((e: unknown) => (trouble.value = reason(e)));
  }, [number, position, open, drawn]);
  // Group colors, once there is a picture to color.
  const by = itemsBy.value;
  useEffect(() => {
    if (open && drawn) needGroups(number, position, by).catch((e: unknown) => (trouble.value = reason(e)));
  }, [number, position, open, drawn, by]);
  const Panel = PANELS[`./views/${shown}/view.tsx`]!;
  const panel = (
    <div id="panel" class="panel-place" role="tabpanel" aria-labelledby={`tab-${shown}`}>
      <Boundary name="This view" of={`${shown} ${scope.value}`}>
        <Panel />
      </Boundary>
    </div>
  );
  return (
    <div class="page">
      <header class="bars">
        <Boundary name="The bar" of={scope.value}>
          <TopBar />
          {(open || isOfRanks) && (
            <div class="second-bar">
              <Tabs />
              {hasTimeline && <TimelineControls />}
            </div>
          )}
          {hasTimeline && <Devices />}
          {hasTimeline && <Transforms />}
        </Boundary>
        <Trouble />
      </header>
      {!hasPanel ? (
        <main class="stage">
          <Nothing />
        </main>
      ) : (
        <main class="stage">
          {hasTimeline ? (
            <Split
              {...(tall.value ? BESIDE : ABOVE)}
              first={
                <Boundary name="The timeline" of={scope.value}>
                  <Timeline />
                </Boundary>
              }
              second={panel}
            />
          ) : (
            panel
          )}
        </main>
      )}
      <DropTarget />
      <OpeningDialog />
      <Help />
    </div>
  );
}
