"""The types of a recording's answers: dictionaries with the keys of the command's `--json`.

Keys that end in `_bytes` are bytes, `_us` microseconds (times since the Unix epoch), events are numbered from 0. A
stack is a list of frames, innermost first. docs/json.md says what each key means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Why = Literal["too_small", "other_stream", "other_size_class", "other_pool", "max_split_size"]
"""Why a free block could not serve a request."""


class Device(TypedDict):
    """What the report says of one device."""

    device: int
    events: int
    peak_event: int | None
    """The last event before the highest allocated bytes; None where nothing rose above the start."""
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
    """Who held `peak_allocated_bytes`, most first. With `at=` it is left out."""
    categories_at_peak: NotRequired[list[CategoryBytes]]
    """What `peak_allocated_bytes` was for, most first. With `at=` it is left out."""
    at: NotRequired[Moment]
    """With `at=`: the event, the counters after it, and who held `allocated_bytes` then."""
    category_reasons: list[CategoryReason]
    steps: NotRequired[Steps]
    pools: list[Holder]
    streams: list[Holder]
    filtered_out_bytes: int
    """What a filter left out of the holders."""
    ooms: list[OutOfMemory]
    more_ooms: int
    """Out-of-memory events beyond those in `ooms`."""
    best_setting: BestSetting | None
    """After an out of memory, the smallest change of settings that fits, or the best that was tried."""
    remedy: Remedy | None
    """After an out of memory, what else to change, where that takes the first cause away."""
    growth_per_step_bytes: int | None
    """Allocated bytes that the program gains with a step; None where it gains none, or no steps are known."""
    leaks: list[Leak]
    fragmentation: Fragmentations
    regions: list[Region]
    churn: list[Churn]
    quality: Quality


class Moment(TypedDict):
    """The counters after an event, and who held the allocated bytes then."""

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
    """What the group shares, as the text report names it."""
    preexisting: bool | None
    """Live before recording began; None in groups that do not tell it apart."""
    stack: list[Frame]
    """Innermost frame first; of a group of several stacks the one that holds most."""
    freed_at: NotRequired[list[Frame]]
    """Of memory live before recording whose allocation was not recorded: where it was freed."""
    frames_left_out: NotRequired[int]
    """Outer frames of either that are not told, beyond the 1,000 innermost."""


class Frame(TypedDict):
    """A line of code."""

    filename: str
    line: int
    name: str


class OutOfMemory(TypedDict):
    """A request that failed for want of memory."""

    event: int
    time_us: int | None
    requested_bytes: int
    stream: int
    device_free_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    reserved_unused_bytes: int
    """Reserved and in no active block; none of it could serve the request, but for `usable_bytes`."""
    usable_bytes: int
    unusable: list[UnusableBlocks]
    largest_free_block: FreeBlock | None
    at_limit: bool
    """The device had room for it: a limit on reserved bytes stood in the way."""
    enough_in_total: bool
    """Free on the device and reserved without use together would have been enough."""
    missing_bytes: int
    device_total_bytes: int | None
    """The device's memory; None where it was not recorded."""
    lacking_bytes: int
    """What the request lacked of the device."""
    lacking_is_exact: bool
    """False where it may be less."""
    causes: list[OutOfMemoryCause]
    """Why it failed, the first cause first."""
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    holders: list[Holder]
    """Who held `allocated_bytes`, by line."""
    pinned_bytes: int
    """Free memory in holes that blocks keep from joining, each hole once."""
    pinned: list[Pin]
    """The lines whose blocks do so, most bytes first. A hole between two lines counts for both."""


class OutOfMemoryCause(TypedDict):
    """One reason why a request failed."""

    cause: str
    bytes: int
    decisive: bool
    """Without it the request would have been served."""
    line: str | None
    """Of a leak: the line."""
    bytes_per_step: int | None
    """Of a leak: what it gains with a step; None where that is not known."""


class Pin(TypedDict):
    """A line whose blocks keep free memory from joining."""

    key: str
    preexisting: bool
    """Live before recording began."""
    bytes: int
    """The holes beside its blocks, each once."""
    holes: int
    alone_bytes: int
    """Part of `bytes` in segments in which no other line has a block."""
    joined_bytes: int
    """The largest hole that there would be without its blocks."""
    blocks: int
    """Its blocks beside these holes."""
    block_bytes: int


class BestSetting(TypedDict):
    """The setting that would have served best after an out of memory."""

    conf: str
    peak_reserved_bytes: int
    fits: bool
    """Up to the end of the recording."""
    nearest: Nearest | None
    """Where it does not fit."""
    exact: bool
    add: list[str]
    """Items that the recorded settings lack."""
    remove: list[str]
    """Items that the recorded settings have too many."""
    more_steps: int | None
    """Where the program grows: how many more steps it would run before it fails again."""
    recommended: str
    """The setting that PyTorch's error text recommends: "was_on", "helps" or "does_not_help"."""


class Remedy(TypedDict):
    """A change other than of settings that makes a run fit after an out of memory."""

    change: str
    """One of "remove_limit", "free_outside", "default_pool", "no_waiting" or "larger_device"."""
    peak_reserved_bytes: int
    needed_bytes: int | None
    """Of a larger device: its bytes."""


class UnusableBlocks(TypedDict):
    """Free blocks that could not serve a request, for one reason."""

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
    """What memory is for, and how much of it."""

    category: str
    bytes: int
    count: int


class CategoryReason(TypedDict):
    """Why it is said of some memory what it was for."""

    category: str
    bytes: int
    count: int
    evidence: str
    """What it stands on: said, frames, lifetime, likeness, nothing."""
    rule: str | None
    """The name of the rule; None where the recording says it, or that it was there before."""
    because: str
    """The reason, as half a sentence about "it"."""


class Steps(TypedDict):
    """The steps of a program that repeats itself."""

    told_by: str
    """annotations, optimizer or rhythm."""
    first_unusual: int | None
    """The number of the first step after the first that makes other allocations than most, from 0."""
    steps: list[Step]


class Step(TypedDict):
    """One step of training or serving."""

    first_event: int
    end_event: int
    """The first event behind it."""
    peak_allocated_bytes: int
    peak_event: int | None
    allocated_bytes: int
    """Bytes of all blocks that were handed out in it."""
    allocations: int
    kept_bytes: int
    """Allocated bytes after it minus those before."""
    is_usual: bool
    """It makes the same allocations as most."""


class Leak(TypedDict):
    """A line whose live allocations pile up."""

    line: Frame
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    stacks: int
    floor: list[int]
    """Fewest live allocations from each tenth of the run on."""
    allocations: int
    kept: int
    kept_bytes: int
    kept_bytes_by_then: list[int]
    kept_bytes_per_step: int | None
    """Bytes of those among the kept that had been made by the end of each tenth of the run."""


class Fragmentations(TypedDict):
    """Fragmentation at two moments; None where nothing was recorded."""

    at_peak: Fragmentation | None
    at_end: Fragmentation | None


class Fragmentation(TypedDict):
    """Memory that is reserved and of no use."""

    internal_bytes: int
    external_bytes: int
    whole_segments_bytes: int
    free_blocks: int
    largest_free_block: FreeBlock | None
    request_bytes: int
    """The request that the next two are told for."""
    usable_bytes: int
    unusable: list[UnusableBlocks]


class Region(TypedDict):
    """An annotated region of the program, all its runs together."""

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
    """Figures of one run of a region."""

    peak_allocated_bytes: int
    peak_above_start_bytes: int
    net_bytes: int
    us: int
    first_event: NotRequired[int]
    end_event: NotRequired[int]
    """The first event behind it. Both are of single runs only."""


class Churn(TypedDict):
    """What one line allocated over the whole run."""

    key: str
    total_bytes: int
    count: int


class Quality(TypedDict):
    """How far the numbers can be trusted."""

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
    """The allocator's rules give every address, segment event and the layout at the end as recorded."""
    skipped_actions: list[str]
    """Kinds of events that were left out."""
    lifetimes_inferred: bool
    """When blocks began and ended is partly inferred, for lack of those."""
    no_segment_events: bool
    """No segment event was recorded, and whether they were left out cannot be told."""


class Replay(TypedDict):
    """What came of running the recorded requests again."""

    device: int
    events: int
    torch: str | None
    """The release whose rules held; None where the recording is not of PyTorch."""
    conf: str
    """The settings of `replayed`."""
    recorded_conf: str
    capacity_bytes: int | None
    overhead_bytes: int | None
    capacity_from: str | None
    """`given`, or `recording`: what the allocator had when the recording ran out of memory."""
    recorded: Recorded
    replayed: Replayed
    reproduces_recording: bool | None
    """None where the settings asked for are not the recorded ones, nothing was recorded, or events were left out
    without which it cannot be told.
    """
    first_divergence: Divergence | None
    compared_end: bool
    """The layout at the end could be compared, too."""
    exact: bool
    """The numbers of `replayed` are exact."""
    approximate_because: list[str]
    what_if: list[Tried]
    """Settings compared, the best first."""
    what_if_approximate_because: list[str]
    """The same as `approximate_because`, for settings that are not the recorded ones."""
    floors: Floors
    smallest_capacity_bytes: int | None
    """With `find_capacity`; None where none was found."""
    smallest_gpu: FittingGpu | None
    """With `find_capacity`: the known GPU with the least memory on which it fits."""
    nearest: Nearest | None
    """Where nothing that was tried fits on the device."""


class FittingGpu(TypedDict):
    """A GPU on which a run fits."""

    name: str
    driver_name: str
    total_bytes: int
    overhead_bytes: int
    """What of it the allocator cannot have."""
    peak_reserved_bytes: int
    num_alloc_retries: int


class Nearest(TypedDict):
    """The setting that needs least where none fits."""

    conf: str
    needed_bytes: int
    """A device on which it fits."""
    missing_bytes: int
    """By how much the device is smaller."""


class Recorded(TypedDict):
    """What the recording itself shows."""

    peak_reserved_bytes: int
    segments_allocated: int
    segments_freed: int


class Outcome(TypedDict):
    """What came of a setting."""

    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Reserved and not active where most was active."""
    segments_allocated: int
    """Whole segments; ranges mapped into expandable ones do not count, as in PyTorch."""
    segments_freed: int
    device_allocs: int
    """Segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None where the size of the device is not known."""
    rescued_requests: int
    """Requests that failed when recorded and are served here; what the program would have done then is not known."""
    stopped_at_event: int | None
    """Where the replay ended because the program would have failed there."""


class Floors(TypedDict):
    """The least memory that any allocator could do with."""

    active_bytes: int
    packed_bytes: int
    packed_is_optimal: bool


class Divergence(TypedDict):
    """Where the replay first differs from the recording."""

    event: int | None
    """None where every event is reproduced and the layout at the end is not."""
    recorded: Side | None
    replayed: Side | None


class Side(TypedDict):
    """What happened on one side of a difference."""

    what: str
    """The event's action, or the block's state."""
    address: int
    bytes: int


class Replayed(Outcome):
    """What came of the settings asked for."""

    oom: ReplayOutOfMemory | None


class Tried(Outcome):
    """A setting that was compared, and what came of it."""

    conf: str
    recorded: bool
    """These are the recorded settings."""
    oom_event: int | None
    add: list[str]
    """Items that the recorded settings lack."""
    remove: list[str]
    """Items that the recorded settings have too many."""


class ReplayOutOfMemory(OutOfMemory):
    """The request that fails in a replay."""

    recorded: bool
    """It failed when recorded, too."""


class Peaks(TypedDict):
    """The highest bytes of each kind, each at its own moment, and when most was allocated."""

    peak_event: int | None
    peak_time_us: int | None
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int


class Report(TypedDict):
    """All answers about a recording."""

    file: str
    format: str
    devices: list[Device]


class InfoDevice(TypedDict):
    """The bare facts of one device."""

    device: int
    events: int
    actions: dict[str, int]
    skipped_actions: list[str]
    segments: int
    blocks: int
    first_time_us: int | None
    last_time_us: int | None


class Info(TypedDict):
    """The bare facts of a file."""

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
    """A number of each of two recordings."""

    a: int
    b: int


class DiffEvent(TypedDict):
    """An event of one of two recordings."""

    event: int
    action: str
    bytes: int
    key: str


class DiffEvents(TypedDict):
    """An event of each of two recordings; None where there is none."""

    a: DiffEvent | None
    b: DiffEvent | None


class ChangedEvents(TypedDict):
    """Events of one kind and size that one recording has more of."""

    action: str
    bytes: int
    count: Numbers
    first: DiffEvents


class OptionalNumbers(TypedDict):
    """A number of each of two recordings; None where it is not known."""

    a: int | None
    b: int | None


class LineDifference(TypedDict):
    """What a line holds in two recordings; `only_in` is the one that alone has it."""

    key: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers
    only_in: Literal["a", "b"] | None


class HighestLine(TypedDict):
    """What a line holds where it holds most itself, and when; `only_in` is the recording that alone has it."""

    key: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    at_event: OptionalNumbers
    only_in: Literal["a", "b"] | None


class StackDifference(TypedDict):
    """What a stack holds in two recordings."""

    stack: list[Frame]
    category: str | None
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers


class CategoryDifference(TypedDict):
    """What a category holds in two recordings."""

    category: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int


class DifferenceLeak(TypedDict):
    """A line whose allocations pile up."""

    key: str
    allocations: int
    kept: int
    kept_bytes: int


class DifferenceLeaks(TypedDict):
    """The lines of each of two recordings whose allocations pile up."""

    a: list[DifferenceLeak]
    b: list[DifferenceLeak]


class Finding(TypedDict):
    """One thing that changed between two recordings."""

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
    """One device in two recordings."""

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
    """Devices that only the one or the other of two recordings used."""

    a: list[int]
    b: list[int]


class SettingDifference(TypedDict):
    """A setting of the allocator that differs; None where nothing says it."""

    key: str
    a: str | None
    b: str | None


class Diff(TypedDict):
    """What changed between two recordings, what they have in common, and where they part."""

    files: Files
    same: bool
    devices: list[DeviceDiff]
    only: Only
    settings: list[SettingDifference]
