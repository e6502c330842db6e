// The first page: the report's sections, in its order, with links to the other views. Each card is a file in overview/.

import { Fragment, type ComponentChildren } from 'preact';
import { useAnswer } from '../../parts/answer';
import { useCurrent, type Current } from '../../parts/current';
import type { Recording, Report } from '../../source/source';
import { once } from '../../state/asked';
import { recording, source } from '../../state/recordings';
import { AllocatorFindingCards } from './allocator-findings';
import { CategoriesCard } from './categories';
import { CollectivesCard } from './collectives';
import { EstimatesCard } from './estimates';
import { FactsCard } from './facts';
import { FragmentationCard } from './fragmentation';
import { HoldersCard } from './holders';
import { IdleCard } from './idle';
import { LeaksCard } from './leaks';
import { LibrariesCard } from './libraries';
import { MarkersCard } from './markers';
import { MemoryCard } from './memory';
import { OtherFailures, OtherLeaks } from './other-devices';
import { OutOfMemoryCards } from './out-of-memory';
import { PhasesCard } from './phases';
import { ReferrersCard } from './referrers';
import { RegionsCard } from './regions';
import { StepsCard } from './steps';
import { TextCard } from './text';
import { ConfidenceCard } from './confidence';

const reportOf = once((file, device, unwanted) => source.ask(file, device, { question: 'report' }, unwanted));

export function View() {
  const open = recording.value;
  const shown = useCurrent();
  if (!open || !shown) return null;
  return <Overview key={shown.scope} open={open} current={shown} />;
}

/** What the cards of sections are made of. */
interface Found {
  open: Recording;
  current: Current;
  report: Report;
}

type Section = (found: Found) => ComponentChildren;

const noCard: Section = () => null;

/**
 * The cards of sections, by the name of the section. A section without one has its rows of text. `noCard` is for sections that the page
 * shows elsewhere: the timeline, the explanation of a failure, and all allocations.
 */
const CARDS: Record<string, Section> = {
  verdict: ({ report, open, current }) => (
    <>
      <OutOfMemoryCards report={report} />
      <OtherFailures open={open} file={current.file} shown={current.device} />
    </>
  ),
  chart: noCard,
  bytes: ({ report, current }) => (
    <MemoryCard device={current.recording} hasRequests={!report.device.quality.seen_from_outside} />
  ),
  libraries: ({ report: { device } }) => <LibrariesCard libraries={device.libraries} device_use={device.device_use} />,
  holders: noCard,
  findings: ({ report }) => <AllocatorFindingCards findings={report.device.findings} />,
  leaks: ({ report }) => <LeaksCard leaks={report.device.leaks} />,
  idle: ({ report }) => <IdleCard idle={report.device.idle} texts={report.idle} />,
  referrers: ({ report }) => <ReferrersCard tensors={report.device.referred_tensors} allocations={report.referred} />,
  fragmentation: ({ report: { device } }) => (
    <FragmentationCard {...device.fragmentation} hasRequests={!device.quality.seen_from_outside} />
  ),
  collectives: ({ report }) => <CollectivesCard collectives={report.device.collectives} />,
  out_of_memory: noCard,
  estimates: ({ report }) => <EstimatesCard estimates={report.device.estimates} />,
  steps: ({ current: { recording } }) => recording.steps && <StepsCard steps={recording.steps} />,
  phases: ({ current: { recording } }) => recording.phases && <PhasesCard phases={recording.phases} steps={recording.steps} />,
  regions: noCard,
  churn: noCard,
  limitations: noCard,
};

function SectionCards({ found }: { found: Found }) {
  return found.report.sections.map((section) => (
    <Fragment key={section.name}>{(CARDS[section.name] ?? (() => <TextCard {...section} />))(found)}</Fragment>
  ));
}

function Overview({ open, current }: { open: Recording; current: Current }) {
  const { file, device, scope, recording } = current;
  const answer = useAnswer(scope, scope, (unwanted) => reportOf(file, device, unwanted));
  const report = answer.value;
  const found = report?.device;
  return (
    <div class="overview" aria-busy={report === null}>
      <div class="overview-column">
        {report ? <SectionCards found={{ open, current, report }} /> : <MemoryCard device={recording} hasRequests />}
        {found && <OtherLeaks open={open} file={file} shown={device} reportOf={reportOf} />}
        {found && <ConfidenceCard confidence={recording.confidence} />}
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
