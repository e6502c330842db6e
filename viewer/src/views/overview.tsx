// The first page: the report's findings, with links to the other views. Each card is a file in overview/.

import { useAnswer } from '../parts/answer';
import { useCurrent, type Current } from '../parts/current';
import type { Recording } from '../source/source';
import { once } from '../state/asked';
import { recording, source } from '../state/recordings';
import { AllocatorFindingCards } from './overview/allocator-findings';
import { CategoriesCard } from './overview/categories';
import { CollectivesCard } from './overview/collectives';
import { EstimatesCard } from './overview/estimates';
import { FactsCard } from './overview/facts';
import { FragmentationCard } from './overview/fragmentation';
import { HoldersCard } from './overview/holders';
import { IdleCard } from './overview/idle';
import { LeaksCard } from './overview/leaks';
import { LibrariesCard } from './overview/libraries';
import { MarkersCard } from './overview/markers';
import { MemoryCard } from './overview/memory';
import { OtherFailures, OtherLeaks } from './overview/other-devices';
import { OutOfMemoryCards } from './overview/out-of-memory';
import { PhasesCard } from './overview/phases';
import { ReferrersCard } from './overview/referrers';
import { RegionsCard } from './overview/regions';
import { StepsCard } from './overview/steps';
import { TrustCard } from './overview/trust';

const reportOf = once((file, device, unwanted) => source.ask(file, device, { question: 'report' }, unwanted));

export function View() {
  const open = recording.value;
  const shown = useCurrent();
  if (!open || !shown) return null;
  return <Overview key={shown.scope} open={open} {...shown} />;
}

function Overview({ open, file, device, scope, recording }: Current & { open: Recording }) {
  const answer = useAnswer(scope, scope, (unwanted) => reportOf(file, device, unwanted));
  const report = answer.value;
  const found = report?.device;
  return (
    <div class="overview" aria-busy={report === null}>
      <div class="overview-column">
        {report && <OutOfMemoryCards report={report} />}
        {found && <AllocatorFindingCards findings={found.findings} />}
        {found && <EstimatesCard estimates={found.estimates} />}
        <OtherFailures open={open} file={file} shown={device} />
        {found && <LeaksCard leaks={found.leaks} />}
        {report && <IdleCard idle={found?.idle} texts={report.idle} />}
        {report && <ReferrersCard tensors={found?.referred_tensors} allocations={report.referred} />}
        {found && <OtherLeaks open={open} file={file} shown={device} reportOf={reportOf} />}
        <MemoryCard device={recording} hasRequests={!found?.quality.seen_from_outside} />
        {found && <LibrariesCard libraries={found.libraries} device_use={found.device_use} />}
        {found && <CollectivesCard collectives={found.collectives} />}
        {recording.steps && <StepsCard steps={recording.steps} />}
        {recording.phases && <PhasesCard phases={recording.phases} steps={recording.steps} />}
        {found && <FragmentationCard {...found.fragmentation} hasRequests={!found.quality.seen_from_outside} />}
        {found && <TrustCard trust={recording.trust} />}
        {found && <MarkersCard file={file} device={device} scope={scope} />}
      </div>
      <div class="overview-column">
        {found && (
          <CategoriesCard
            categories={found.categories_at_peak ?? []}
            reasons={found.category_reasons}
            peak={recording.peaks.allocated}
          />
        )}
        {found ? (
          <HoldersCard holders={found.holders_at_peak ?? []} peak={recording.peaks.allocated} />
        ) : (
          <p class="page-note" role="status">
            {answer.error ?? 'Reading the findings.'}
          </p>
        )}
        {found && <RegionsCard regions={found.regions} />}
        <FactsCard title="Allocator settings" facts={open.settings} />
        <FactsCard title="File" facts={open.facts} />
      </div>
    </div>
  );
}
