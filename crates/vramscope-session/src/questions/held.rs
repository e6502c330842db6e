//! The live allocations at a moment: grouped, compared, and as a call tree.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    AllocationProperties, Both, By, CallsOf, Cancel, Holder, HolderChange, HolderKey, HoldersOf, Moment,
    NodeKind, Origin, Paths, RecordedAllocation, Side, Steps, changed_holders, compared_call_tree,
    holders_among, holders_of_both as of_both,
};
use vramscope_report::{Names, Shown, changes};
use vramscope_trace::{Category, FrameId, PoolId, StackId};

use crate::SessionError;
use crate::questions::columns::{Columns, F64s, NONE, Reply, U8s, U32s, stack};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::{ByKind, OpenDevice, by_kind};
use crate::questions::hues::hue;
use crate::questions::recording::OpenRecording;
use crate::questions::search::Matcher;
use crate::questions::tables::{self, category};
use crate::questions::transforms::{CallTransform, Prepared, WORDS};

/// Requests the live allocations at a moment.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LiveQuery {
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
    /// The frames that become nodes of the call tree.
    #[cfg_attr(test, ts(type = "CallsOf"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) calls: CallsOf,
    /// Whether the innermost calls are the roots of the tree.
    pub(crate) inverted: bool,
    /// An earlier moment for comparison.
    pub(crate) before: Option<usize>,
    /// A search that marks groups; with `only_found`, only matches are included.
    pub(crate) search: Option<SearchQuery>,
    pub(crate) only_found: bool,
    /// The path of a node of the call tree, from its root: the groups have the allocations of this node alone, or of
    /// its nearest caller that exists at the moment. A step is the number of a
    /// frame, or a position in `Calls.words` as -1, -2, ...
    #[serde(default)]
    pub(crate) zoom: Vec<i32>,
    /// Transforms of the call tree.
    #[serde(default)]
    pub(crate) transforms: Vec<CallTransform>,
}

/// The live allocations at a moment. All parts of the answer refer to the same moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Live {
    pub(crate) holders: Holders,
    pub(crate) calls: Calls,
    /// Bytes for each of `CATEGORIES`; null before the categories are computed.
    pub(crate) categories: Option<Vec<u64>>,
    /// The number of live blocks, the number of matching blocks, and the matching bytes.
    pub(crate) blocks: usize,
    pub(crate) found_blocks: usize,
    pub(crate) found_bytes: u64,
}

/// Requests groups of the live allocations at one moment of each of two devices.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HoldersOfBothQuery {
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_moment: usize,
}

/// Groups of the live allocations at a moment, most bytes first. In a comparison with another moment or recording, the largest
/// growth comes first and the largest decrease last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Holders {
    /// Identifies each group at any moment of the recording.
    pub(crate) key: Vec<String>,
    /// The display name of each group.
    pub(crate) label: Vec<String>,
    /// The hue of each group: see [`Groups`](super::groups::Groups).
    pub(crate) hue: U32s,
    /// 1 if the group contains matches, at either moment.
    pub(crate) found: U8s,
    pub(crate) now: HeldAt,
    /// The compared moment or recording.
    pub(crate) before: Option<HeldAt>,
}

/// The amounts of the groups at a moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HeldAt {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// The number of blocks.
    pub(crate) count: U32s,
    /// The stack with the most bytes of each group.
    pub(crate) stack: U32s,
}

/// The call tree of the live allocations at a moment, and of those at another. Callers precede callees, largest weight first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Calls {
    /// The position of the caller; `NONE` for a root.
    pub(crate) parent: U32s,
    /// The frame; `NONE` for a node without a frame.
    pub(crate) frame: U32s,
    /// The meaning of a node without a frame: a position in `words`.
    pub(crate) word: U32s,
    pub(crate) words: Vec<String>,
    /// The position in `words` from which they name collapsed frames.
    pub(crate) first_group: usize,
    /// The bytes and blocks of the node and its descendants, now and before.
    pub(crate) bytes: F64s,
    pub(crate) count: U32s,
    pub(crate) bytes_before: F64s,
    pub(crate) count_before: U32s,
    /// The matching bytes.
    pub(crate) found: F64s,
    /// The larger of the bytes now and before, summed from the leaves.
    pub(crate) weight: F64s,
}

/// Everything is precomputed per allocation, so queries at any moment compute nothing anew.
impl AllocationProperties for OpenDevice {
    fn pool(&self, allocation: usize) -> Option<PoolId> {
        self.tags_of(allocation).pool.map(|[a, b]| PoolId(a, b))
    }

    fn category(&self, allocation: usize) -> Category {
        self.purposes().category(allocation as u32)
    }

    fn layer(&self, allocation: usize) -> Option<Arc<str>> {
        // For a freed allocation without a recorded allocation event, the tags are those of the free.
        let is_told = self.history().allocations[allocation].origin != Origin::FreeOnly;
        let text = self.tags_of(allocation).layer.filter(|_| is_told)?;
        Some(self.tags.texts[text as usize].get(self.history()).into())
    }

    fn steps(&self) -> Option<&Steps> {
        Some(&self.purposes().steps)
    }

    fn alike(&self, allocation: usize) -> Option<u32> {
        // If the tags are those of the free, the layer is unknown.
        let is_told = self.history().allocations[allocation].origin != Origin::FreeOnly;
        is_told.then(|| self.tags.allocations[allocation])
    }
}

impl OpenDevice {
    fn tags_of(&self, allocation: usize) -> &crate::questions::tags::Tags {
        &self.tags.table[self.tags.allocations[allocation] as usize]
    }

    /// The indices of the allocations that are live at a moment.
    pub(crate) fn allocated_at(&self, at: Moment) -> Vec<usize> {
        let allocations = &self.history().allocations;
        let active = self.timeline.active_at(at).into_iter().map(|id| id as usize);
        active.filter(|&id| allocations[id].is_allocated_at(at)).collect()
    }
}

/// The node at a position of [`Calls::words`].
fn word(position: usize) -> Option<NodeKind> {
    let group = |position: usize| Some(NodeKind::Collapsed(u32::try_from(position).ok()?));
    WORDS.get(position).copied().or_else(|| group(position - WORDS.len()))
}

/// The inverse of [`word`]; 0 for a frame.
fn position(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::Collapsed(group) => WORDS.len() as u32 + group,
        kind => WORDS.iter().position(|&word| word == kind).unwrap_or_default() as u32,
    }
}

/// A node of the call tree to which the page has zoomed.
struct Zoom<'f> {
    paths: Paths<'f>,
    /// The nodes from the root of the tree.
    path: Vec<NodeKind>,
    /// For each kind of allocation, the number of leading nodes that it shares with the path.
    shared: HashMap<(Origin, Option<StackId>), usize>,
}

impl<'f> Zoom<'f> {
    /// A path of the protocol. It ends at the first step that no recording has.
    fn to(paths: Paths<'f>, steps: &[i32]) -> Self {
        let frames: Vec<FrameId> = paths.trace.frames.iter().map(|(id, _)| id).collect();
        let node = |step: &i32| match usize::try_from(*step) {
            Ok(frame) => frames.get(frame).map(|&frame| NodeKind::Frame(frame)),
            Err(_) => word(usize::try_from(-1 - i64::from(*step)).ok()?),
        };
        Self { paths, path: steps.iter().map_while(node).collect(), shared: HashMap::new() }
    }

    fn shared(&mut self, a: &RecordedAllocation) -> usize {
        let Self { paths, path, shared } = self;
        *shared.entry((a.origin, a.stack)).or_insert_with(|| {
            let nodes = paths.path(Some(a.origin), a.stack).nodes;
            nodes.iter().zip(&*path).take_while(|(a, b)| a == b).count()
        })
    }

    /// The number of leading nodes of the path that exist at this moment.
    fn depth(&mut self, at: &DeviceAt<'_>) -> usize {
        if self.path.is_empty() {
            return 0;
        }
        let allocations = &at.device.history().allocations;
        at.allocated.iter().map(|&id| self.shared(&allocations[id])).max().unwrap_or_default()
    }

    /// The allocations of the node at this depth of the path.
    fn within<'d>(&mut self, at: &DeviceAt<'d>, depth: usize) -> DeviceAt<'d> {
        let allocations = &at.device.history().allocations;
        let mut those = |ids: &[usize]| -> Vec<usize> {
            ids.iter().copied().filter(|&id| depth == 0 || self.shared(&allocations[id]) >= depth).collect()
        };
        DeviceAt { allocated: those(&at.allocated), found: those(&at.found), ..*at }
    }
}

/// A device at a moment, with its live allocations and those that match a search.
pub(crate) struct DeviceAt<'f> {
    file: &'f OpenRecording,
    pub(crate) device: &'f OpenDevice,
    pub(crate) moment: Moment,
    /// The live allocations; only the matching ones if only matches are requested.
    pub(crate) allocated: Vec<usize>,
    pub(crate) found: Vec<usize>,
    /// The number of all live blocks.
    blocks: usize,
    /// Whether a search is active.
    pub(crate) is_searched: bool,
}

impl<'f> DeviceAt<'f> {
    pub(crate) fn of(
        file: &'f OpenRecording,
        device: usize,
        moment: usize,
        search: Option<&SearchQuery>,
        cancel: &Cancel,
    ) -> Result<Self, SessionError> {
        let device = file.device(device)?;
        let moment = device.moment(moment)?;
        let allocated = device.allocated_at(moment);
        let matcher = Matcher::of(device, search, cancel)?;
        let finds = |id: &usize| matcher.as_ref().is_some_and(|matcher| matcher.finds(*id));
        let found = allocated.iter().copied().filter(finds).collect();
        let blocks = allocated.len();
        Ok(Self { file, device, moment, allocated, found, blocks, is_searched: matcher.is_some() })
    }

    /// Keeps only the matching allocations, if a search is active.
    fn only_found(self) -> Self {
        if !self.is_searched {
            return self;
        }
        Self { allocated: self.found.clone(), ..self }
    }

    pub(crate) fn grouped(&self, allocations: &[usize], by: By) -> Vec<Holder> {
        let Self { file, device, .. } = self;
        holders_among(device.history(), file.session.frames(), *device, allocations.iter().copied(), by)
    }

    pub(crate) fn holders(&self, by: By) -> Vec<Holder> {
        self.grouped(&self.allocated, by)
    }

    /// The groups with matching allocations.
    fn found(&self, by: By) -> Groups {
        self.grouped(&self.found, by).into_iter().map(|h| (h.origin, h.key)).collect()
    }

    /// Bytes by category, if the categories are computed already.
    fn categories(&self) -> Option<Vec<u64>> {
        let (purposes, history) = (self.device.purposes_so_far()?, self.device.history());
        let mut bytes = vec![0; Category::ALL.len()];
        for &id in &self.allocated {
            bytes[usize::from(category(purposes.category(id as u32)))] += history.allocations[id].size;
        }
        Some(bytes)
    }

    pub(crate) fn place(&self) -> DeviceMoment<'f> {
        DeviceMoment { device: self.device, moment: self.moment }
    }
}

/// A moment of a device.
pub(crate) struct DeviceMoment<'f> {
    pub(crate) device: &'f OpenDevice,
    pub(crate) moment: Moment,
}

impl DeviceMoment<'_> {
    /// The amounts of groups in columns, with the counters of this moment. `held` are the groups in order.
    fn column<'h>(
        &self,
        columns: &mut Columns,
        held: impl Iterator<Item = Option<&'h Holder>> + Clone,
    ) -> HeldAt {
        let amounts = held.clone().map(|h| h.map(Holder::held).unwrap_or_default());
        HeldAt {
            moment: self.moment.index(),
            counters: by_kind(self.device.timeline.counters_at(self.moment)),
            bytes: columns.sizes(amounts.clone().map(|held| held.bytes)),
            requested: columns.sizes(amounts.clone().map(|held| held.requested)),
            count: columns.u32(amounts.map(|held| held.count as u32)),
            stack: columns.u32(held.map(|h| stack(h.and_then(|h| h.stack)))),
        }
    }
}

impl OpenRecording {
    pub(crate) fn live(&self, device: usize, query: &LiveQuery, cancel: &Cancel) -> Reply<Live> {
        let by = query.by;
        let at = |moment| {
            let at = DeviceAt::of(self, device, moment, query.search.as_ref(), cancel)?;
            Ok::<_, SessionError>(if query.only_found { at.only_found() } else { at })
        };
        let (before, now) = (query.before.map(at).transpose()?, at(query.moment)?);
        let calls = vramscope_analysis::Calls { of: query.calls, inverted: query.inverted };
        let stacks = Both {
            a: before.as_ref().map(|before| before.holders(By::Stack)).unwrap_or_default(),
            b: now.holders(By::Stack),
        };
        let prepared = Prepared::of(self.session.trace(), self.session.frames(), &query.transforms)?;
        let paths = self.paths(calls, &prepared);
        let mut zoom = Zoom::to(paths, &query.zoom);
        let depth = before.iter().chain([&now]).map(|at| zoom.depth(at)).max().unwrap_or_default();
        let [before_zoomed, now_zoomed] =
            [before.as_ref(), Some(&now)].map(|at| at.map(|at| zoom.within(at, depth)));
        let groups = |at: &Option<DeviceAt<'_>>| {
            at.as_ref().map(|at| (at.holders(by), at.found(by))).unwrap_or_default()
        };
        let ((a, found_a), (b, found_b)) = (groups(&before_zoomed), groups(&now_zoomed));
        let found = Both { a: found_a, b: found_b };
        let groups = changed_holders(Both { a, b }, &marks(&found));
        let names = self.session.names();
        Columns::answer(|columns| Live {
            holders: holders(
                columns,
                groups.iter(),
                &Both { a: names, b: names },
                &now.place(),
                before.as_ref().map(DeviceAt::place).as_ref(),
            ),
            calls: self.calls(columns, paths, &prepared, &stacks, &now.grouped(&now.found, By::Stack)),
            categories: now.categories(),
            blocks: now.blocks,
            found_blocks: now.found.len(),
            found_bytes: now.found.iter().map(|&id| now.device.history().allocations[id].size).sum(),
        })
    }

    fn paths<'p>(&'p self, calls: vramscope_analysis::Calls, prepared: &'p Prepared) -> Paths<'p> {
        let (trace, frames) = (self.session.trace(), self.session.frames());
        Paths { trace, frames, calls, transforms: &prepared.transforms }
    }

    fn calls(
        &self,
        columns: &mut Columns,
        paths: Paths<'_>,
        prepared: &Prepared,
        stacks: &Both<Vec<Holder>>,
        found: &[Holder],
    ) -> Calls {
        let at = Both { a: stacks.a.as_slice(), b: stacks.b.as_slice() };
        let nodes = compared_call_tree(paths, at, found);
        let caller = |number: Option<usize>| number.map_or(NONE, |number| number as u32);
        let frame = |kind| match kind {
            NodeKind::Frame(frame) => frame.index() as u32,
            _ => NONE,
        };
        let names = self.session.names();
        let groups = (0..prepared.groups.len()).map(|group| NodeKind::Collapsed(group as u32));
        Calls {
            parent: columns.u32(nodes.iter().map(|node| caller(node.parent))),
            frame: columns.u32(nodes.iter().map(|node| frame(node.kind))),
            word: columns.u32(nodes.iter().map(|node| position(node.kind))),
            words: WORDS.into_iter().chain(groups).map(|kind| prepared.word(&names, kind)).collect(),
            first_group: WORDS.len(),
            bytes: columns.sizes(nodes.iter().map(|node| node.held.b.bytes)),
            count: columns.u32(nodes.iter().map(|node| node.held.b.count as u32)),
            bytes_before: columns.sizes(nodes.iter().map(|node| node.held.a.bytes)),
            count_before: columns.u32(nodes.iter().map(|node| node.held.a.count as u32)),
            found: columns.sizes(nodes.iter().map(|node| node.found)),
            weight: columns.sizes(nodes.iter().map(|node| node.weight)),
        }
    }
}

/// Groups of the live allocations in two recordings, compared from the first to the second.
pub(crate) fn holders_of_both(
    of: Both<(&OpenRecording, usize)>,
    query: &HoldersOfBothQuery,
    cancel: &Cancel,
) -> Reply<Holders> {
    let by = query.by;
    let search = query.search.as_ref();
    let a = DeviceAt::of(of.a.0, of.a.1, query.moment, search, cancel)?;
    let b = DeviceAt::of(of.b.0, of.b.1, query.other_moment, search, cancel)?;
    let both = Both { a: &a, b: &b };
    let holders = both.map(|at| HoldersOf {
        trace: at.file.session.trace(),
        frames: at.file.session.frames(),
        holders: at.holders(by),
    });
    let groups = of_both(holders, &marks(&both.map(|at| at.found(by))));
    let names = of.map(|(file, _)| file.session.names());
    let (a, b) = (a.place(), b.place());
    Columns::answer(|columns| self::holders(columns, groups.iter(), &names, &b, Some(&a)))
}

/// A set of groups, by key.
pub(crate) type Groups = HashSet<(Option<Origin>, HolderKey)>;

/// Whether a group contains matching allocations.
pub(crate) fn marks(found: &Both<Groups>) -> impl Fn(Side, &Holder) -> bool {
    |side, holder| {
        let found = found.of(side);
        !found.is_empty() && found.contains(&(holder.origin, holder.key.clone()))
    }
}

/// Converts groups to columns.
pub(crate) fn holders<'c>(
    columns: &mut Columns,
    groups: impl Iterator<Item = &'c HolderChange> + Clone,
    names: &Both<Names<'_>>,
    now: &DeviceMoment<'_>,
    before: Option<&DeviceMoment<'_>>,
) -> Holders {
    let at = |side: Side| groups.clone().map(move |group| group.holders.of(side).as_ref());
    Holders {
        key: groups.clone().map(|group| key(group, names)).collect(),
        label: groups.clone().map(|group| label(group, names)).collect(),
        hue: columns.u32(groups.clone().map(|group| {
            let side = group.side();
            group.holders.of(side).as_ref().map_or(0, |holder| hue(names.of(side), holder))
        })),
        found: columns.u8(groups.clone().map(|group| group.is_marked.into())),
        now: now.column(columns, at(Side::B)),
        before: before.map(|before| before.column(columns, at(Side::A))),
    }
}

/// The maximum length of a label in bytes: a file may give one very long name to any number of groups.
const LONGEST_LABEL: usize = 500;

pub(crate) fn label(group: &HolderChange, names: &Both<Names<'_>>) -> String {
    let label = changes::holder(group, names);
    let holder = group.holders.of(group.side()).as_ref();
    let label = match holder {
        Some(holder) => readable(holder, label),
        None => label,
    };
    Shown::at_most(&label, LONGEST_LABEL).into()
}

/// The label of a group in words: `optimizer state`.
pub(crate) fn readable(holder: &Holder, label: String) -> String {
    match &holder.key {
        HolderKey::Category(category) => label.replace(category.name(), &category.name().replace('_', " ")),
        _ => label,
    }
}

/// A key for a group that is valid at any moment of both recordings, which have separate ids.
pub(crate) fn key(group: &HolderChange, names: &Both<Names<'_>>) -> String {
    let side = group.side();
    let Some(holder) = group.holders.of(side) else { return String::new() };
    let numbers = if std::ptr::eq(names.a.trace, names.b.trace) { "" } else { changes::side(side) };
    format!("{numbers}{}", key_of(holder))
}

/// A key for a group that is valid at any moment of its recording.
pub(crate) fn key_of(holder: &Holder) -> String {
    let of = match &holder.key {
        HolderKey::NoStack => String::new(),
        HolderKey::NoFile => "compiled".to_owned(),
        HolderKey::Stack(stack) => stack.index().to_string(),
        HolderKey::Line(frame) => frame.index().to_string(),
        HolderKey::Function(file, name) => format!("{}.{}", file.index(), name.index()),
        HolderKey::File(file) => file.index().to_string(),
        HolderKey::Module(path) => format!("/{path}"),
        HolderKey::Pool(pool) => pool.map(|PoolId(a, b)| format!("{a}.{b}")).unwrap_or_default(),
        HolderKey::Stream(stream) => stream.to_string(),
        HolderKey::Category(category) => category.name().to_owned(),
        HolderKey::Layer(layer) => layer.as_ref().map(|path| format!("/{path}")).unwrap_or_default(),
        HolderKey::Step(step) => step.map(|step| step.to_string()).unwrap_or_default(),
        HolderKey::Size(power) => power.to_string(),
    };
    format!("{} {of}", holder.origin.map_or(0, tables::origin))
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::{CallsOf, holders_at};

    use super::*;
    use crate::questions::conditions::SizeSign;
    use crate::questions::recording::example as open;
    use crate::questions::transforms::CallTransform;
    use crate::questions::transforms::FramesOf;

    #[test]
    fn groups_are_those_of_the_command_at_every_moment() {
        for example in ["training.pickle.zst", "leak.pickle", "oom.pickle"] {
            let file = open(example);
            let history = file.devices[0].history();
            let end = history.end().index();
            for moment in [0, end / 7, end / 2, history.peaks().allocated.moment.index(), end] {
                for by in By::ALL {
                    let at = DeviceAt::of(&file, 0, moment, None, &Cancel::default()).unwrap();
                    let plain = |h: Holder| (h.bytes, h.requested, h.count, h.origin, h.key);
                    let told: Vec<_> = at.holders(by).into_iter().map(plain).collect();
                    let command = holders_at(history, file.session.frames(), Moment::from_index(moment), by);
                    assert_eq!(told, command.into_iter().map(plain).collect::<Vec<_>>(), "{example} {by:?}");
                }
            }
        }
    }

    #[test]
    fn a_zoom_into_a_node_selects_the_allocations_of_its_stacks() {
        let file = open("training.pickle.zst");
        let history = file.devices[0].history();
        let peak = history.peaks().allocated.moment.index();
        let at = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap();
        let stacks = at.holders(By::Stack);
        for calls in [CallsOf::Own, CallsOf::All]
            .map(|of| vramscope_analysis::Calls { of, inverted: of == CallsOf::All })
        {
            let prepared = Prepared::default();
            let paths = file.paths(calls, &prepared);
            let both = Both { a: &[][..], b: stacks.as_slice() };
            let nodes = compared_call_tree(paths, both, &[]);
            let mut checked = 0;
            for node in nodes.iter().filter(|node| node.held.b.bytes > 0) {
                let up = std::iter::successors(Some(node), |node| Some(&nodes[node.parent?]));
                let mut path: Vec<i32> = up
                    .map(|node| match node.kind {
                        NodeKind::Frame(frame) => frame.index() as i32,
                        kind => -1 - position(kind) as i32,
                    })
                    .collect();
                path.reverse();
                let mut zoom = Zoom::to(paths, &path);
                assert_eq!(zoom.depth(&at), path.len());
                let below = zoom.within(&at, path.len()).holders(By::Line);
                assert_eq!(below.iter().map(|h| h.bytes).sum::<u64>(), node.held.b.bytes);
                checked += 1;
                // The tree of another moment may lack the end of the path.
                path.push(-1);
                assert_eq!(Zoom::to(paths, &path).depth(&at), path.len() - 1);
            }
            assert!(checked > 3, "{checked}");
        }
        // A frame that the file lacks ends the path.
        assert!(
            Zoom::to(
                file.paths(
                    vramscope_analysis::Calls { of: CallsOf::Own, inverted: false },
                    &Prepared::default()
                ),
                &[i32::MAX, 0]
            )
            .path
            .is_empty()
        );
    }

    #[test]
    fn transforms_keep_the_same_allocations_in_a_search_as_in_the_tree() {
        let file = open("training.pickle.zst");
        let history = file.devices[0].history();
        let (trace, frames) = (file.session.trace(), file.session.frames());
        let peak = history.peaks().allocated.moment.index();
        let function =
            |name: &str, file: &str| FramesOf::Function { name: name.to_owned(), file: file.to_owned() };
        let library = |name: &str| FramesOf::Library { name: name.to_owned() };
        let unknown = function("step", "torch/optim/adam.py");
        let step = function("step", "torch/optim/sgd.py");
        let convolution = function("at::native::convolution", "");
        let all = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap();
        let bytes = |at: &DeviceAt<'_>| at.holders(By::Line).iter().map(|h| h.bytes).sum::<u64>();
        let whole = bytes(&all);
        let mut labels = Vec::new();
        let mut sums = Vec::new();
        for (transforms, some_are_kept) in [
            (vec![CallTransform::Focus { frames: unknown }], false),
            (vec![CallTransform::Focus { frames: convolution.clone() }], true),
            (vec![CallTransform::Drop { frames: convolution.clone() }], true),
            (vec![CallTransform::Focus { frames: step }], true),
            (vec![CallTransform::Drop { frames: library("torchvision") }], true),
            (
                vec![
                    CallTransform::Merge { frames: library("torch") },
                    CallTransform::CollapseLibraries { expanded: vec!["c10::".to_owned()] },
                    CallTransform::Focus { frames: convolution.clone() },
                ],
                true,
            ),
        ] {
            let search = SearchQuery::Transforms { transforms: transforms.clone() };
            let only = DeviceAt::of(&file, 0, peak, Some(&search), &Cancel::default()).unwrap().only_found();
            let prepared = Prepared::of(trace, frames, &transforms).unwrap();
            let paths =
                file.paths(vramscope_analysis::Calls { of: CallsOf::All, inverted: false }, &prepared);
            let kept = |id: &&usize| {
                let a = &history.allocations[**id];
                paths.path(Some(a.origin), a.stack).is_kept
            };
            let expected: u64 =
                all.allocated.iter().filter(kept).map(|&id| history.allocations[id].size).sum();
            assert_eq!(bytes(&only), expected, "{transforms:?}");
            assert!(expected < whole && (expected > 0) == some_are_kept, "{expected} {transforms:?}");
            sums.push(expected);
            let nodes = compared_call_tree(paths, Both { a: &[], b: &only.holders(By::Stack) }, &[]);
            let roots = nodes.iter().filter(|node| node.parent.is_none());
            assert_eq!(roots.map(|node| node.held.b.bytes).sum::<u64>(), expected);
            labels = nodes.iter().map(|node| prepared.word(&file.session.names(), node.kind)).collect();
        }
        // Focus and drop share the allocations between them.
        assert_eq!(sums[1] + sums[2], whole);
        // Merged frames are gone, collapsed libraries are one node, and the expanded one has its frames.
        assert!(labels.contains(&"at::".to_owned()) && !labels.contains(&"c10::".to_owned()));
        assert!(!labels.iter().any(|label| label.starts_with("torch/")));
    }

    #[test]
    fn a_focused_path_has_the_allocations_of_its_node() {
        let file = open("training.pickle.zst");
        let names = file.session.names();
        let peak = file.devices[0].history().peaks().allocated.moment.index();
        let at = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap();
        let stacks = at.holders(By::Stack);
        let mut checked = 0;
        for (of, inverted) in [(CallsOf::Own, false), (CallsOf::Python, true), (CallsOf::Python, false)] {
            for before in [vec![], vec![CallTransform::CollapseLibraries { expanded: Vec::new() }]] {
                let prepared = Prepared::of(file.session.trace(), file.session.frames(), &before).unwrap();
                let paths = file.paths(vramscope_analysis::Calls { of, inverted }, &prepared);
                let nodes = compared_call_tree(paths, Both { a: &[], b: &stacks }, &[]);
                for node in nodes.iter().step_by(nodes.len() / 6 + 1) {
                    let up = std::iter::successors(Some(node), |node| Some(&nodes[node.parent?]));
                    let mut path: Vec<String> = up.map(|node| prepared.word(&names, node.kind)).collect();
                    path.reverse();
                    let focus = CallTransform::FocusPath { calls: of, inverted, path };
                    let transforms = before.iter().cloned().chain([focus]).collect();
                    let search = SearchQuery::Transforms { transforms };
                    let only = DeviceAt::of(&file, 0, peak, Some(&search), &Cancel::default()).unwrap();
                    let bytes = only.only_found().holders(By::Line).iter().map(|h| h.bytes).sum::<u64>();
                    assert_eq!(bytes, node.held.b.bytes);
                    checked += 1;
                }
            }
        }
        assert!(checked > 12, "{checked}");
    }

    #[test]
    fn transforms_are_bounded() {
        let file = open("leak.pickle");
        let of = |transforms: Vec<CallTransform>| {
            let query = SearchQuery::Transforms { transforms };
            DeviceAt::of(&file, 0, 1, Some(&query), &Cancel::default()).map(|at| at.allocated.len())
        };
        let path = |path| CallTransform::FocusPath { calls: CallsOf::All, inverted: true, path };
        assert!(of(vec![path(vec!["no such line".to_owned()]); 64]).is_ok());
        for invalid in
            [vec![path(vec!["f".to_owned()]); 65], vec![path(vec![])], vec![path(vec![String::new(); 1002])]]
        {
            assert!(matches!(of(invalid), Err(SessionError::Argument(_))));
        }
        let cancel = Cancel::default();
        cancel.cancel();
        let focus = CallTransform::Focus { frames: FramesOf::Library { name: "torch".to_owned() } };
        let query = SearchQuery::Transforms { transforms: vec![focus] };
        assert!(matches!(DeviceAt::of(&file, 0, 1, Some(&query), &cancel), Err(SessionError::Cancelled)));
    }

    #[test]
    fn a_search_marks_the_groups_of_what_it_finds() {
        let file = open("leak.pickle");
        let peak = file.devices[0].history().peaks().allocated.moment.index();
        let large = SearchQuery::Size { sign: SizeSign::AtLeast, size: "1MB".to_owned() };
        for by in By::ALL {
            let all = DeviceAt::of(&file, 0, peak, Some(&large), &Cancel::default()).unwrap();
            let bytes: u64 = all.grouped(&all.found, by).iter().map(|h| h.bytes).sum();
            let allocations = &file.devices[0].history().allocations;
            let sizes =
                all.allocated.iter().map(|&id| allocations[id].size).filter(|&size| size >= 1_000_000);
            assert_eq!(bytes, sizes.sum::<u64>());
            assert!(bytes > 0 && all.found(by).len() <= all.holders(by).len());
            // With only matches requested, the groups are exactly those with matches.
            let only = DeviceAt::of(&file, 0, peak, Some(&large), &Cancel::default()).unwrap().only_found();
            assert_eq!(only.holders(by).iter().map(|h| h.bytes).sum::<u64>(), bytes);
            let groups: HashSet<_> = only.holders(by).into_iter().map(|h| (h.origin, h.key)).collect();
            assert!(groups == all.found(by) && only.blocks == all.allocated.len());
        }
        // Without a search, no group is marked.
        assert!(DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap().found(By::Line).is_empty());
    }

    #[test]
    fn groups_have_distinct_keys() {
        for example in ["training.pickle.zst", "leak.pickle"] {
            let file = open(example);
            let names = Both { a: file.session.names(), b: file.session.names() };
            let peak = file.devices[0].history().peaks().allocated.moment.index();
            for by in By::ALL {
                let holders = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap().holders(by);
                let groups = changed_holders(Both { a: Vec::new(), b: holders }, &|_, _| false);
                let keys: HashSet<String> = groups.iter().map(|group| key(group, &names)).collect();
                assert_eq!(keys.len(), groups.len(), "{example} {by:?}");
            }
        }
    }
}
