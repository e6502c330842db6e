//! What a part of the recording allocated, freed and left behind, grouped, and compared with a part before.

use vramscope_analysis::{
    Amount, Both, By, Cancel, Holder, HolderChange, Moment, ProgramPart, RunBetween, Spent, SpentBy,
    SpentChange, SpentGroup, Steps, Stretch, spent_by, spent_changes,
};
use vramscope_report::spent as words;

use crate::ViewError;
use crate::answers::stack;
use crate::columns::{Answer, Columns};
use crate::device::OpenDevice;
use crate::held::{key, label};
use crate::protocol::{self, EarlierPart, SpentAmounts, SpentIn, SpentQuery};
use crate::recording::OpenRecording;
use crate::search::Matcher;

/// A part of a device's recording, and what it did.
struct Part<'d> {
    device: &'d OpenDevice,
    part: ProgramPart,
    title: String,
    stretch: Stretch,
    spent: SpentBy,
}

impl OpenRecording {
    pub(crate) fn spent(&self, device: usize, query: &SpentQuery, cancel: &Cancel) -> Answer {
        let device = self.device(device)?;
        let matcher = query.search.clone().map(|search| Matcher::of(device, search));
        let takes = |id: usize| matcher.as_ref().is_none_or(|matcher| matcher.finds(id));
        let none = Steps::default();
        // What memory is for is found out after the first pictures; until then there are no steps.
        let steps = device.purposes_so_far().map_or(&none, |purposes| &purposes.steps);
        let runs = device.runs();
        let of = |[from, to]: [usize; 2]| {
            self.part(device, runs, steps, [from, to], query.by.into(), &takes, cancel)
        };
        let mut now = of([query.from, query.to])?;
        let mut before = query.before.map(of).transpose()?;
        let groups = std::mem::take(&mut now.spent.groups);
        let changes = match &mut before {
            Some(before) => spent_changes(groups, std::mem::take(&mut before.spent.groups)),
            None => groups.into_iter().map(|group| SpentChange { group, before: Spent::default() }).collect(),
        };
        let earlier = now.part.before(&self.recording.trace, runs, steps).map(|part| EarlierPart {
            from: part.from.index(),
            to: part.to.index(),
            title: self.title(device, &part),
        });
        let names = Both { a: self.names_of(), b: self.names_of() };
        let named: Vec<HolderChange> = changes.iter().map(|change| holder(&change.group)).collect();
        Columns::answer(|columns| protocol::Spent {
            key: named.iter().map(|group| key(group, &names)).collect(),
            label: named.iter().map(|group| label(group, &names)).collect(),
            stack: columns.u32(changes.iter().map(|change| stack(change.group.stack))),
            now: now.columns(columns, &changes.iter().map(|change| change.group.spent).collect::<Vec<_>>()),
            before: before.map(|part| {
                part.columns(columns, &changes.iter().map(|change| change.before).collect::<Vec<_>>())
            }),
            earlier,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "one question, asked of two parts")]
    fn part<'d>(
        &self,
        device: &'d OpenDevice,
        runs: &[RunBetween],
        steps: &Steps,
        [from, to]: [usize; 2],
        by: By,
        takes: &dyn Fn(usize) -> bool,
        cancel: &Cancel,
    ) -> Result<Part<'d>, ViewError> {
        let (from, to) = (device.moment(from)?, device.moment(to)?);
        if from > to {
            return Err(ViewError::Question("a part of the recording begins before it ends".to_owned()));
        }
        let stretch = device.timeline.stretch(from, to);
        let spent = spent_by(device.history(), &self.frames, device, &stretch, by, takes, cancel)
            .ok_or(ViewError::Unwanted)?;
        let part = ProgramPart::of(runs, steps, from, to);
        Ok(Part { device, part, title: self.title(device, &part), stretch, spent })
    }

    fn title(&self, device: &OpenDevice, part: &ProgramPart) -> String {
        words::title(part, device.history().device().events.len(), self.names_of())
    }
}

impl Part<'_> {
    fn columns(&self, columns: &mut Columns, groups: &[Spent]) -> SpentIn {
        let Self { device, stretch, spent, .. } = self;
        let mut bytes = |of: fn(&Spent) -> Amount| columns.sizes(groups.iter().map(|spent| of(spent).bytes));
        let first = device.timeline.time_of(Moment::after(stretch.from.index()));
        let last = device.timeline.time_of(stretch.to);
        SpentIn {
            from: stretch.from.index(),
            to: stretch.to.index(),
            headline: words::headline(&self.title, &spent.all, stretch.highest),
            title: self.title.clone(),
            lasted_us: first.zip(last).map(|(first, last)| last.saturating_sub(first).max(0)),
            highest: stretch.highest.bytes,
            highest_moment: stretch.highest.moment.index(),
            all: amounts(&spent.all),
            found: amounts(&spent.taken),
            before: bytes(|spent| spent.before),
            allocated: bytes(|spent| spent.allocated),
            freed: bytes(Spent::freed),
            temporary: bytes(|spent| spent.temporary),
            survived: bytes(Spent::survived),
            at_highest: bytes(|spent| spent.at_highest),
            after: bytes(Spent::after),
            count: columns.u32(groups.iter().map(|spent| spent.allocated.count as u32)),
        }
    }
}

fn amounts(spent: &Spent) -> SpentAmounts {
    let amount = |Amount { bytes, count, .. }: Amount| protocol::Amount { bytes, count };
    SpentAmounts {
        before: amount(spent.before),
        allocated: amount(spent.allocated),
        freed: amount(spent.freed()),
        freed_from_before: amount(spent.freed_before),
        temporary: amount(spent.temporary),
        survived: amount(spent.survived()),
        at_highest: amount(spent.at_highest),
        after: amount(spent.after()),
    }
}

/// A group as it is named and told from others at a moment, too.
fn holder(group: &SpentGroup) -> HolderChange {
    let Amount { bytes, requested, count } = group.spent.allocated;
    let SpentGroup { origin, stack, .. } = *group;
    let holder = Holder { bytes, requested, count, origin, key: group.key.clone(), stack };
    HolderChange { holders: Both { a: None, b: Some(holder) }, is_function: false, is_marked: false }
}
