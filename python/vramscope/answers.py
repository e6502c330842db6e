"""Types of a recording's answers: dictionaries with the keys of the command's `--json`.

Keys that end in `_bytes` are in bytes; those in `_us` are microseconds, times since the Unix epoch. Event indices
start at 0. A stack is a list of frames, innermost first. docs/json.md describes every key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Why = Literal["too_small", "other_stream", "other_size_class", "other_pool", "max_split_size"]
"""The reason why a free block could not serve a request."""


class Device(TypedDict):
    """The report on one device."""

    device: int
    events: int
    peak_event: int | None
    """The event index at which allocated bytes peaked; None if they never rose above their start."""
    peak_time_us: int | None
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_requested_bytes: int
    end_allocated_bytes: int
    end_active_bytes: int
    end_reserved_bytes: int
    end_segments: int
    end_blocks: int
    preexisting_bytes: int
    holders_at_peak: NotRequired[list[Holder]]
    """Holders of `peak_allocated_bytes`, largest first; absent with `at=`."""
    categories_at_peak: NotRequired[list[CategoryBytes]]
    """Categories of `peak_allocated_bytes`, largest first; absent with `at=`."""
    at: NotRequired[Moment]
    """With `at=`: the event index, the counters after the event, and the holders of `allocated_bytes` there."""
    category_reasons: list[CategoryReason]
    steps: NotRequired[Steps]
    pools: list[Holder]
    streams: list[Holder]
    filtered_out_bytes: int
    """Bytes of holders that a filter left out."""
    ooms: list[OutOfMemory]
    more_ooms: int
    """The number of out-of-memory events not listed in `ooms`."""
    best_setting: BestSetting | None
    """After an out of memory: the smallest change of settings that fits, or else the best one tried."""
    remedy: Remedy | None
    """After an out of memory: a change other than settings that removes the first cause."""
    growth_per_step_bytes: int | None
    """Allocated bytes gained per step; None if there is no growth, or no steps are known."""
    leaks: list[Leak]
    fragmentation: Fragmentations
    regions: list[Region]
    churn: list[Churn]
    quality: Quality


class Moment(TypedDict):
    """The counters after an event, and the holders of the allocated bytes there."""

    event: int
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    holders: list[Holder]
    categories: list[CategoryBytes]


class Holder(TypedDict):
    """A group of live allocations."""

    bytes: int
    requested_bytes: int
    count: int
    key: str
    """The group's key as the text report prints it."""
    preexisting: bool | None
    """Live before recording began; None if the grouping does not distinguish it."""
    stack: list[Frame]
    """Innermost frame first; for a group of several stacks, the stack that holds most."""
    freed_at: NotRequired[list[Frame]]
    """For memory live before recording whose allocation was not recorded: the stack that freed it."""
    frames_left_out: NotRequired[int]
    """The number of outer frames left out of either stack, beyond the 1,000 innermost."""


class Frame(TypedDict):
    """A line of code."""

    filename: str
    line: int
    name: str


class OutOfMemory(TypedDict):
    """An allocation request that ran out of memory."""

    event: int
    time_us: int | None
    requested_bytes: int
    stream: int
    device_free_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    reserved_unused_bytes: int
    """Reserved bytes in no active block; the request could use only `usable_bytes` of them."""
    usable_bytes: int
    unusable: list[UnusableBlocks]
    largest_free_block: FreeBlock | None
    at_limit: bool
    """The device had enough free memory, but a limit on reserved bytes prevented the allocation."""
    enough_in_total: bool
    """Free device memory and reserved, unused memory together were enough."""
    missing_bytes: int
    device_total_bytes: int | None
    """The device's total memory; None if not recorded."""
    lacking_bytes: int
    """Device bytes that the request was short of."""
    lacking_is_exact: bool
    """False if the true value may be lower."""
    causes: list[OutOfMemoryCause]
    """Causes of the failure, most important first."""
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    holders: list[Holder]
    """Holders of `allocated_bytes`, by line."""
    pinned_bytes: int
    """Bytes of free holes that live blocks keep apart; each hole counts once."""
    pinned: list[Pin]
    """Lines whose blocks keep the holes apart, most bytes first. A hole between two lines counts for both."""


class OutOfMemoryCause(TypedDict):
    """One cause of a failed request."""

    cause: str
    bytes: int
    decisive: bool
    """Without this cause, the request would have succeeded."""
    line: str | None
    """For a leak: its source line."""
    bytes_per_step: int | None
    """For a leak: its growth per step; None if unknown."""


class Pin(TypedDict):
    """A line whose blocks keep free holes apart."""

    key: str
    preexisting: bool
    """Live before recording began."""
    bytes: int
    """Bytes of the holes next to its blocks; each hole counts once."""
    holes: int
    alone_bytes: int
    """The part of `bytes` in segments where no other line has a block."""
    joined_bytes: int
    """The size of the largest hole if its blocks were gone."""
    blocks: int
    """The number of its blocks next to these holes."""
    block_bytes: int


class BestSetting(TypedDict):
    """The best allocator setting found after an out of memory."""

    conf: str
    peak_reserved_bytes: int
    fits: bool
    """The run fits until the end of the recording."""
    nearest: Nearest | None
    """The setting that comes closest, if this one does not fit."""
    exact: bool
    add: list[str]
    """Items to add to the recorded settings."""
    remove: list[str]
    """Items to remove from the recorded settings."""
    more_steps: int | None
    """For a growing program: the number of further steps before it fails again."""
    recommended: str
    """How the setting in PyTorch's error text fares: "was_on", "helps" or "does_not_help"."""


class Remedy(TypedDict):
    """A change other than settings that makes a run fit after an out of memory."""

    change: str
    """One of "remove_limit", "free_outside", "default_pool", "no_waiting" or "larger_device"."""
    peak_reserved_bytes: int
    needed_bytes: int | None
    """For a larger device: the bytes it needs."""


class UnusableBlocks(TypedDict):
    """Free blocks that could not serve a request, grouped by reason."""

    why: Why
    bytes: int
    blocks: int
    largest_bytes: int


class FreeBlock(TypedDict):
    """A free block of a segment."""

    address: int
    bytes: int
    stream: int
    kind: str
    pool: list[int] | None


class CategoryBytes(TypedDict):
    """The bytes of one category."""

    category: str
    bytes: int
    count: int


class CategoryReason(TypedDict):
    """The evidence for the category of some memory."""

    category: str
    bytes: int
    count: int
    evidence: str
    """The kind of evidence: said, frames, lifetime, likeness or nothing."""
    rule: str | None
    """The rule's name; None if the category is recorded, or the memory predates the recording."""
    because: str
    """The reason, as half a sentence about "it"."""


class Steps(TypedDict):
    """The steps of a program that repeats its work."""

    told_by: str
    """The source of the steps: annotations, optimizer or rhythm."""
    first_unusual: int | None
    """The number, from 0, of the first step after step 0 with other allocations than most steps."""
    steps: list[Step]


class Step(TypedDict):
    """One step of training or serving."""

    first_event: int
    end_event: int
    """One past the last event index."""
    peak_allocated_bytes: int
    peak_event: int | None
    allocated_bytes: int
    """Total bytes of the blocks allocated during the step."""
    allocations: int
    kept_bytes: int
    """Allocated bytes after the step minus allocated bytes before it."""
    is_usual: bool
    """The step makes the same allocations as most steps."""


class Leak(TypedDict):
    """A line whose live allocations keep growing."""

    line: Frame
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    stacks: int
    floor: list[int]
    """Per tenth of the run: the fewest live allocations from there until the end."""
    allocations: int
    kept: int
    kept_bytes: int
    kept_bytes_by_then: list[int]
    """Of the kept allocations: bytes already allocated by the end of each tenth of the run."""
    kept_bytes_per_step: int | None
    """Of the kept allocations: bytes allocated per step; None if no steps are known."""


class Fragmentations(TypedDict):
    """Fragmentation at the peak and at the end; None if nothing was recorded."""

    at_peak: Fragmentation | None
    at_end: Fragmentation | None


class Fragmentation(TypedDict):
    """Reserved memory that is not usable."""

    internal_bytes: int
    external_bytes: int
    whole_segments_bytes: int
    free_blocks: int
    largest_free_block: FreeBlock | None
    request_bytes: int
    """The request size to which `usable_bytes` and `unusable` refer."""
    usable_bytes: int
    unusable: list[UnusableBlocks]


class Region(TypedDict):
    """An annotated region of the program, over all its runs."""

    name: str
    count: int
    peak_allocated_bytes: int
    peak_above_start_bytes: int
    net_bytes: int
    total_us: int
    first: RegionRun
    typical: RegionRun
    largest: RegionRun


class RegionRun(TypedDict):
    """The figures of one run of a region."""

    peak_allocated_bytes: int
    peak_above_start_bytes: int
    net_bytes: int
    us: int
    first_event: NotRequired[int]
    end_event: NotRequired[int]
    """One past the last event index. Both indices are present only for single runs."""


class Churn(TypedDict):
    """The allocations of one line over the whole run."""

    key: str
    total_bytes: int
    count: int


class Quality(TypedDict):
    """How reliable the numbers are."""

    exact: bool
    """Allocated and active bytes are exact."""
    preexisting_blocks: int
    inferred_sizes: int
    size_mismatches: int
    lost_events: int
    segment_contradictions: int
    end_state_disagreements: int
    end_state_disagreement_bytes: int
    settings_assumed: bool
    probably_overflowed: bool
    reproduced: bool | None
    """The allocator's rules reproduce every recorded address and segment event, and the final layout."""
    skipped_actions: list[str]
    """Kinds of events that were left out."""
    lifetimes_inferred: bool
    """Some start and end times of blocks are inferred, because such events were left out."""
    no_segment_events: bool
    """No segment event was recorded; they may have been left out."""


class Replay(TypedDict):
    """The result of replaying the recorded requests."""

    device: int
    events: int
    torch: str | None
    """The PyTorch release whose rules apply; None if the recording is not PyTorch's."""
    conf: str
    """The settings used for `replayed`."""
    recorded_conf: str
    capacity_bytes: int | None
    overhead_bytes: int | None
    capacity_from: str | None
    """The source of the capacity: `given`, or `recording`, the allocator's memory when the recording ran out."""
    recorded: Recorded
    replayed: Replayed
    reproduces_recording: bool | None
    """None if the settings differ from the recorded ones, nothing was recorded, or left-out events prevent the
    comparison.
    """
    first_divergence: Divergence | None
    compared_end: bool
    """The final layout was compared too."""
    exact: bool
    """The numbers in `replayed` are exact."""
    approximate_because: list[str]
    what_if: list[Tried]
    """Results of other settings, best first."""
    what_if_approximate_because: list[str]
    """Like `approximate_because`, for settings other than the recorded ones."""
    floors: Floors
    smallest_capacity_bytes: int | None
    """With `find_capacity`; None if no capacity was found."""
    smallest_gpu: FittingGpu | None
    """With `find_capacity`: the known GPU with the least memory on which the run fits."""
    nearest: Nearest | None
    """The closest setting, if no tried setting fits on the device."""


class FittingGpu(TypedDict):
    """A GPU on which a run fits."""

    name: str
    driver_name: str
    total_bytes: int
    overhead_bytes: int
    """GPU memory unavailable to the allocator."""
    peak_reserved_bytes: int
    num_alloc_retries: int


class Nearest(TypedDict):
    """The setting with the lowest need, if none fits."""

    conf: str
    needed_bytes: int
    """The size of a device on which the run fits with this setting."""
    missing_bytes: int
    """Bytes that the device is short of."""


class Recorded(TypedDict):
    """The figures of the recording itself."""

    peak_reserved_bytes: int
    segments_allocated: int
    segments_freed: int


class Outcome(TypedDict):
    """The result of replaying with one setting."""

    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Reserved minus active bytes where active bytes peaked."""
    segments_allocated: int
    """Whole segments; as in PyTorch, ranges mapped into expandable segments do not count."""
    segments_freed: int
    device_allocs: int
    """Whole segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None if the device's size is unknown."""
    rescued_requests: int
    """Requests that failed in the recording and succeed here; the program's behavior after them is unknown."""
    stopped_at_event: int | None
    """The event index at which the replay stopped, because the program would have failed there."""


class Floors(TypedDict):
    """The least memory that any allocator needs."""

    active_bytes: int
    packed_bytes: int
    packed_is_optimal: bool


class Divergence(TypedDict):
    """The first difference between replay and recording."""

    event: int | None
    """None if every event is reproduced but the final layout is not."""
    recorded: Side | None
    replayed: Side | None


class Side(TypedDict):
    """One side of a difference."""

    what: str
    """The event's action, or the block's state."""
    address: int
    bytes: int


class Replayed(Outcome):
    """The result of the requested settings."""

    oom: ReplayOutOfMemory | None


class Tried(Outcome):
    """A tried setting and its result."""

    conf: str
    recorded: bool
    """These are the recorded settings."""
    oom_event: int | None
    add: list[str]
    """Items to add to the recorded settings."""
    remove: list[str]
    """Items to remove from the recorded settings."""


class ReplayOutOfMemory(OutOfMemory):
    """The request that fails in a replay."""

    recorded: bool
    """The request also failed in the recording."""


class Peaks(TypedDict):
    """The peak of each kind of bytes, each at its own event, and the event of the allocated peak."""

    peak_event: int | None
    peak_time_us: int | None
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int


class Report(TypedDict):
    """The full report on a recording."""

    file: str
    format: str
    devices: list[Device]


class InfoDevice(TypedDict):
    """Basic facts about one device."""

    device: int
    events: int
    actions: dict[str, int]
    skipped_actions: list[str]
    segments: int
    blocks: int
    first_time_us: int | None
    last_time_us: int | None


class Info(TypedDict):
    """Basic facts about a file."""

    file: str
    format: str
    pickle_protocol: int | None
    compression: str
    generation: str | None
    features: list[str]
    devices: list[InfoDevice]
    frames: int
    stacks: int
    stack_frames: int
    annotations: int | None
    allocator_conf: str | None
    bytes_per_event: int


class Numbers(TypedDict):
    """One number for each of two recordings."""

    a: int
    b: int


class DiffEvent(TypedDict):
    """An event of one of two recordings."""

    event: int
    action: str
    bytes: int
    key: str


class DiffEvents(TypedDict):
    """An event of each of two recordings; None if a recording lacks it."""

    a: DiffEvent | None
    b: DiffEvent | None


class ChangedEvents(TypedDict):
    """Events of one kind and size, of which one recording has more."""

    action: str
    bytes: int
    count: Numbers
    first: DiffEvents


class OptionalNumbers(TypedDict):
    """One number for each of two recordings; None if unknown."""

    a: int | None
    b: int | None


class LineDifference(TypedDict):
    """A line's bytes in two recordings; `only_in` names the recording if only one has the line."""

    key: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers
    only_in: Literal["a", "b"] | None


class HighestLine(TypedDict):
    """A line's own peak in two recordings, and its event; `only_in` names the recording if only one has the line."""

    key: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    at_event: OptionalNumbers
    only_in: Literal["a", "b"] | None


class StackDifference(TypedDict):
    """A stack's bytes in two recordings."""

    stack: list[Frame]
    category: str | None
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers


class CategoryDifference(TypedDict):
    """A category's bytes in two recordings."""

    category: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int


class DifferenceLeak(TypedDict):
    """A line whose allocations keep growing."""

    key: str
    allocations: int
    kept: int
    kept_bytes: int


class DifferenceLeaks(TypedDict):
    """The lines whose allocations keep growing, for each of two recordings."""

    a: list[DifferenceLeak]
    b: list[DifferenceLeak]


class Finding(TypedDict):
    """One difference between two recordings."""

    kind: str
    explains: bool
    text: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    counts: bool
    categories: list[CategoryDifference]
    lines: list[LineDifference]
    leaks: NotRequired[DifferenceLeaks]
    factor: NotRequired[float]


class DeviceDiff(TypedDict):
    """The differences on one device."""

    device: int
    same: bool
    at_event: OptionalNumbers
    allocated_bytes: Numbers
    what_changed: list[Finding]
    categories: list[CategoryDifference]
    lines: list[LineDifference]
    stacks: list[StackDifference]
    internal_fragmentation_bytes: OptionalNumbers
    external_fragmentation_bytes: OptionalNumbers
    ooms: Numbers
    highest_lines: list[HighestLine]
    same_events: bool
    events: Numbers
    same_events_at_start: int
    alike_events_at_end: int
    first_difference: DiffEvents | None
    changed: list[ChangedEvents]
    peak_requested_bytes: Numbers
    peak_allocated_bytes: Numbers
    peak_active_bytes: Numbers
    peak_reserved_bytes: Numbers
    end_allocated_bytes: Numbers
    end_reserved_bytes: Numbers
    end_segments: Numbers


class Files(TypedDict):
    """The names of two recordings."""

    a: str
    b: str


class Only(TypedDict):
    """Devices that only one of two recordings used."""

    a: list[int]
    b: list[int]


class SettingDifference(TypedDict):
    """An allocator setting that differs; None if the recording does not contain it."""

    key: str
    a: str | None
    b: str | None


class Diff(TypedDict):
    """Differences between two recordings, and their common start and end."""

    files: Files
    same: bool
    devices: list[DeviceDiff]
    only: Only
    settings: list[SettingDifference]
