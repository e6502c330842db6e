"""Types of a recording's answers: dictionaries with the keys of the command's `--json`.

Keys that end in `_bytes` are in bytes; those in `_us` are microseconds, times since the Unix epoch. Event indices
start at 0. A stack is a list of frames, innermost first. docs/json.md describes every key.

Written by the tests of crates/vramscope-cli from the structs that are serialized:
`INSTA_UPDATE=always cargo test -p vramscope-cli schemas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class AllocatorFinding(TypedDict):
    """A known problem that a rule recognized, with its evidence."""

    finding: str
    """The rule, such as `stranded_cache`."""
    bytes: int
    """Bytes that the problem costs or concerns."""
    certainty: str
    """`shown`: events or an exact replay show it; `likely`: events show it, if the program goes on as before;
    `possible`: only the end state shows it.
    """
    event: int | None
    """The event that shows it; None if the end state does."""
    stack: list[Frame]
    """The stack of that event, innermost frame first."""
    frames_left_out: NotRequired[int]
    title: str
    """The problem, in words."""
    evidence: list[str]
    """The evidence, in sentences."""
    action: str
    """What to change, in sentences."""


class Amount(TypedDict):
    """Bytes and blocks."""

    bytes: int
    requested_bytes: int
    count: int


class AskedMemoryAt(TypedDict):
    """A line of the program that asks for the free device memory."""

    line: str
    calls: int


class BestSetting(TypedDict):
    """The best allocator setting found after an out of memory."""

    conf: str
    peak_reserved_bytes: int
    fits: bool
    """Whether the recording fits up to its end."""
    nearest: Nearest | None
    """Present if it does not fit."""
    exact: bool
    add: list[str]
    """Items to add to and remove from the recorded settings."""
    remove: list[str]
    """Items to remove from the recorded settings."""
    more_steps: int | None
    """If the program grows: the number of further steps before it fails again."""
    recommended: str
    """Effect of the setting that PyTorch's error message recommends: `was_on`, `helps` or `does_not_help`."""


class BlockCalls(TypedDict):
    """Modules that one line calls one after the other."""

    caller: Frame
    container: str | None
    """The path of the module that contains them; None if the recording has no modules."""
    calls: int
    """Calls in a forward pass."""


class CategoryBytes(TypedDict):
    """The bytes of a category."""

    category: str
    """The name of the category. `temporary` includes the workspaces of libraries."""
    bytes: int
    count: int
    workspace_bytes: NotRequired[int | None]
    """The bytes of workspaces in `bytes`; omitted if there are none."""


class CategoryDifference(TypedDict):
    """A category's bytes in two recordings."""

    category: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int


class CategoryReason(TypedDict):
    """The evidence for a category."""

    category: str
    """The name of the category."""
    bytes: int
    count: int
    evidence: str
    """The kind of evidence: `said`, `frames`, `lifetime`, `likeness`, `nothing`."""
    rule: str | None
    """The name of the rule; None if the category is recorded or the memory is preexisting."""
    because: str
    """The reason, as a clause about "it"."""


class Certainty(TypedDict):
    """The peak of a program's memory on one GPU, without contexts, in bytes, and what it may depend on."""

    kind: CertaintyKind
    low_bytes: int
    """The smallest peak of the runs."""
    high_bytes: int | None
    """The largest peak of the runs; `None` if a run did not show the whole peak."""
    basis: list[CertaintyReason]
    """Why the peak is no single number. Of an exact number, what the runs showed to have no effect."""


CertaintyAbout = Literal["end", "values", "time", "libraries", "choices"]
"""The subject of a reason."""


CertaintyEffect = Literal["none", "model", "range", "unbounded"]
"""The effect of a reason on the peak."""


CertaintyKind = Literal["exact", "modeled", "between", "at_least"]
"""The kind of a number."""


class CertaintyReason(TypedDict):
    """Something that a phantom GPU does not know."""

    about: CertaintyAbout
    text: str
    """The sentence without a full stop, in the order of the verdict's first line."""
    effect: CertaintyEffect


class ChangedEvents(TypedDict):
    """Events of one kind and size, of which one recording has more."""

    action: str
    bytes: int
    count: Numbers
    first: DiffEvents
    """The first of these events in each recording."""


class Check(TypedDict):
    """The output of `vramscope check --json`."""

    file: str
    format: str
    baseline: str | None
    kept: bool
    """Whether all budgets are kept; false if one is unknown."""
    status: str
    """`exceeded` if a budget is exceeded, else `unknown` if one is unknown, else `kept`."""
    damage: Damage | None
    """Damaged places of the file; None if there are none."""
    devices: list[DeviceCheck]
    only_in_baseline: list[int]
    """Devices that were used only in the baseline."""


class Churn(TypedDict):
    """Totals of one line over the run."""

    key: str
    total_bytes: int
    count: int


class Collective(TypedDict):
    """Buffers of one collective operation on one stream, of one process group where it is known."""

    operation: str
    """`all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `gather`, `scatter`, `reduce`,
    `point_to_point`, `barrier` or `unknown`.
    """
    process_group_pool: list[int] | None
    """The private pool that the process group created for its tensors; None if the process group is not recorded."""
    stream: int
    """The stream on which the buffers were allocated, as its address."""
    bytes: int
    """Bytes at the event of the holders."""
    blocks: int
    peak_bytes: int
    """The most bytes of these buffers at one event."""
    allocations: int
    """Number of allocations in the whole recording."""
    frame: Frame
    """The frame of PyTorch that shows the operation, in the stack of the largest buffer."""
    line: Frame | None
    """The line of the user's code in that stack; None without one."""


class Damage(TypedDict):
    """Damaged places of a file. What follows them was read."""

    places: int
    bytes: int
    """Bytes that could not be read."""
    first_byte: int
    """Offset of the first place in bytes."""


class Device(TypedDict):
    """One device of the report."""

    device: int
    events: int
    peak_event: int | None
    """Event index of the peak of allocated bytes; None if nothing rose above the start."""
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
    holders_at_peak: NotRequired[list[Holder] | None]
    """Holders of `peak_allocated_bytes`, largest first. Absent with `at`."""
    categories_at_peak: NotRequired[list[CategoryBytes] | None]
    """Categories of `peak_allocated_bytes`, largest first. Absent with `at`."""
    at: NotRequired[Moment | None]
    """With `at`: the event, and the counters and holders after it."""
    category_reasons: list[CategoryReason]
    """The evidence for the categories of the holders."""
    steps: NotRequired[Steps | None]
    """The steps of training or serving, if the program repeats itself."""
    phases: NotRequired[list[Phase] | None]
    """The phases of all steps, in order of time, if any are known."""
    libraries: NotRequired[list[Library] | None]
    """Device memory of the process beside PyTorch's allocator, and host memory that it pinned, at the event of the
    holders. Only in logs of `vramscope run`.
    """
    device_use: NotRequired[DeviceUse | None]
    """The driver's counts of the device's memory. Only in logs of `vramscope run`."""
    not_followed: NotRequired[list[FunctionCalls] | None]
    """Functions of the driver that may allocate memory, and whose calls the recorder counts and does not follow. Only
    in logs of `vramscope run`.
    """
    pools: list[Holder]
    streams: list[Holder]
    filtered_out_bytes: int
    """Bytes of holders that `filter` left out."""
    ooms: list[OutOfMemory]
    more_ooms: int
    """Out-of-memory events beyond those in `ooms`."""
    unexplained_ooms: UnexplainedOoms | None
    """Three of these further events; None if there are none."""
    best_setting: BestSetting | None
    """After an out-of-memory failure: the setting that would have worked best on the same device."""
    less_reserved: LessReserved | None
    """Other settings under which a run without a failed request reserves clearly less; None if none is known."""
    remedy: Remedy | None
    """After an out-of-memory failure: another change, if it removes the main cause."""
    fixes: list[Fix]
    """Changes of the program that the leak or the failed request points to, the most useful first."""
    growth_per_step_bytes: int | None
    """Growth of allocated bytes per step; None if there is none, or no steps are known."""
    estimates: NotRequired[Estimates | None]
    """The peak with changes to the program, estimated with `budget` or after an out-of-memory failure."""
    leaks: list[Leak]
    findings: list[AllocatorFinding]
    """Known problems of programs with a caching allocator, most bytes first."""
    idle: NotRequired[Idle | None]
    """Memory that is live while nothing uses it. Only in logs of phantom GPUs that have accesses."""
    referred_tensors: NotRequired[list[ReferredTensor] | None]
    """Tensors whose referrers the program named when it took the snapshot, largest first. With `at`, those allocated
    after the event. Only in recordings with `referrers=True`.
    """
    fragmentation: Fragmentations
    host_memory: NotRequired[HostMemory | None]
    """The host memory of the process, at its first device. Only in logs of `vramscope run` of a minute or more."""
    collectives: NotRequired[list[Collective] | None]
    """Buffers of collectives at the event of the holders, most bytes first. Absent if the recording has none."""
    private_pools: list[PrivatePool]
    """The private pools at the end, most reserved bytes first."""
    serving: NotRequired[ServingMemory | None]
    """The parts of a program with a KV cache."""
    regions: list[Region]
    churn: list[Churn]
    quality: Quality


class DeviceCheck(TypedDict):
    """The verdicts on one device."""

    device: int
    events: int
    verdicts: list[Verdict]
    quality: Quality
    baseline_quality: Quality | None
    """None if there is no baseline or the baseline lacks this device."""
    notes: list[str]
    """The limitations of the numbers, as in the text output."""


class DeviceDiff(TypedDict):
    """The differences on one device."""

    device: int
    same: bool
    at_event: OptionalNumbers
    """Event index of the comparison; None before the first event."""
    allocated_bytes: Numbers
    """Allocated bytes at that event."""
    what_changed: list[Finding]
    """Most relevant first."""
    categories: list[CategoryDifference]
    """Allocated bytes by category; empty if the categories of a recording are unknown."""
    lines: list[LineDifference]
    """Allocated bytes by line; largest difference first."""
    stacks: list[StackDifference]
    internal_fragmentation_bytes: OptionalNumbers
    """Bytes lost to rounding inside blocks."""
    external_fragmentation_bytes: OptionalNumbers
    """Bytes reserved and not active."""
    ooms: Numbers
    """Number of failed requests."""
    highest_lines: list[HighestLine]
    """Each line at its own peak; largest growth first."""
    same_events: bool
    events: Numbers
    same_events_at_start: int
    alike_events_at_end: int
    first_difference: DiffEvents | None
    """The first differing event of each recording; None if all events are the same, and for a recording that has ended.
    """
    changed: list[ChangedEvents]
    peak_requested_bytes: Numbers
    peak_allocated_bytes: Numbers
    peak_active_bytes: Numbers
    peak_reserved_bytes: Numbers
    end_allocated_bytes: Numbers
    end_reserved_bytes: Numbers
    end_segments: Numbers
    promise: NotRequired[Promise | None]
    """With `promised`: the bytes that the change should free, and those that it freed."""


class DeviceUse(TypedDict):
    """The driver's counts of the device's memory."""

    here: MeasuredUse | None
    """The last count at or before the event of the holders; None if there is none."""
    first: MeasuredUse
    """The first count of the recording."""
    highest: MeasuredUse
    """The count with the most bytes in use."""


class Diff(TypedDict):
    """The output of `vramscope diff --json`."""

    files: Files
    same: bool
    """Whether the recordings do not differ."""
    devices: list[DeviceDiff]
    only: Only
    """Devices that only one recording used."""
    settings: list[SettingDifference]
    """Allocator settings that differ."""


class DiffEvent(TypedDict):
    """An event of one of two recordings."""

    event: int
    action: str
    bytes: int
    key: str
    """The line of user code."""


class DiffEvents(TypedDict):
    """An event of each of two recordings; None if a recording lacks it."""

    a: DiffEvent | None
    b: DiffEvent | None


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


class Divergence(TypedDict):
    """The first difference between replay and recording."""

    event: int | None
    """None if every event is reproduced, but not the layout at the end."""
    recorded: Side | None
    replayed: Side | None


class DynamicLine(TypedDict):
    """A line whose requests were not at planned places."""

    line: str
    requests: int
    bytes: int


class Estimate(TypedDict):
    """The estimate of a change."""

    change: str
    """The name of the change, as in `vramscope fit --only`."""
    name: str
    text: str
    """Distance to the budget, error and cost, in a clause."""
    peak_allocated_bytes: int
    left_bytes: int | None
    """Negative if bytes are missing; None without a budget."""
    verdict: str | None
    """`fits`, `may_fit` or `does_not_fit`, with the error in mind; None without a budget."""
    error: EstimateError
    cost: str
    assumption: str | None
    lines: list[str]
    verify: str
    """The command that runs the changed program."""
    blocks: list[BlockCalls]
    """The checkpointed modules."""


class EstimateError(TypedDict):
    """The errors of estimates of this change in measured programs, in percent of the peak of the changed program."""

    cases: int
    """Number of programs."""
    mean_absolute_percent: float
    lowest_percent: float
    highest_percent: float
    too_low: int
    """Estimates that were too low by more than 1 %."""


class Estimates(TypedDict):
    """The peak with changes to the program, computed from the recorded allocations."""

    recorded_peak_bytes: int
    """The recorded peak of allocated bytes. A failed request counts."""
    available_bytes: int | None
    """The bytes that the allocator may use; None without a budget."""
    overhead_bytes: int
    """Bytes of the device that the allocator cannot use; 0 if unknown."""
    unrecorded: str | None
    """The part of a step that a failed request cut off: `gradients` or `optimizer_states`; None if none."""
    basis: list[str]
    """The basis of the estimates and its limits, in sentences."""
    changes: list[Estimate]
    """First those that suffice, then from cheap to expensive."""
    left_out: list[NoEstimate]


class FailedRequest(TypedDict):
    """A failed request."""

    event: int
    time_us: int | None
    requested_bytes: int
    device_free_bytes: int | None
    """None if it was not recorded."""


class Files(TypedDict):
    """The files of two recordings."""

    a: str
    b: str


class Finding(TypedDict):
    """One difference."""

    kind: str
    """The rule that found the difference."""
    explains: bool
    """Whether it explains why, and not only where."""
    text: str
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    counts: bool
    """Whether it is more than one percent of the total difference."""
    categories: list[CategoryDifference]
    lines: list[LineDifference]
    leaks: NotRequired[DifferenceLeaks | None]
    """For `leak`: the leaking lines."""
    factor: NotRequired[float | None]
    """For `scaled` and `type`: the ratio of the sizes."""


class Fit(TypedDict):
    """The output of `vramscope fit --json`."""

    command: list[str]
    gpu: str
    total_bytes: int
    budget_bytes: int
    context_bytes: int
    context_high_bytes: int
    fits: bool
    baseline: FitRun
    repeat: FitRun | None
    deterministic: bool | None
    model: str | None
    changes: list[FitChange]
    dropped: list[FitDropped]
    vary: FitVary | None
    stopped: bool


class FitChange(TypedDict):
    """A change, or several together."""

    name: str
    changes: list[str]
    value: int | None
    run: FitRun
    left_bytes: int
    cost: str
    recomputed_share: float | None
    recomputed_by: str | None
    copied_bytes_per_step: int | None
    blocks: list[str] | None
    lines: list[str]


class FitDropped(TypedDict):
    """A change without numbers."""

    name: str
    reason: str


class FitPoint(TypedDict):
    """A measured number."""

    value: int
    run: FitRun


class FitRun(TypedDict):
    """The memory of one run."""

    fits: bool
    verdict: str
    certainty: Certainty
    peak_device_bytes: int
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    ran_out: bool
    steps: int
    recordings: list[str]


class FitVary(TypedDict):
    """The numbers of `vary`."""

    name: str
    low: int
    high: int
    largest: int | None
    ignored: bool
    grows: bool
    stopped_by: str | None
    points: list[FitPoint]


class FittingGpu(TypedDict):
    """A GPU on which a run fits."""

    name: str
    driver_name: str
    total_bytes: int
    overhead_bytes: int
    """The part of `total_bytes` that the allocator cannot use."""
    peak_reserved_bytes: int
    num_alloc_retries: int


class Fix(TypedDict):
    """A change of the program that the leak or the failed request points to."""

    change: str
    """`drop_checkpoint`, `drop_earlier_model`, `fewer_copies`, `autocast_cache`, `eval_accumulation`, `no_grad`,
    `detach`, `fewer_results`, `smaller_optimizer`, `chunked_loss`, `fused_attention`, `limit_input`, `in_parts` or
    `smaller_batch`.
    """
    line: Frame | None
    """The line that made most of the memory, if there is one."""
    bytes: int
    """Bytes of the memory that the change is about."""
    certainty: str
    """`likely` or `possible`."""


class Floors(TypedDict):
    """The least memory that any allocator needs."""

    active_bytes: int
    packed_bytes: int
    packed_is_optimal: bool


class Fragmentation(TypedDict):
    """Reserved memory that is not usable."""

    internal_bytes: int
    external_bytes: int
    whole_segments_bytes: int
    free_blocks: int
    largest_free_block: FreeBlock | None
    request_bytes: int
    """The request size that `usable_bytes` and `unusable` apply to."""
    usable_bytes: int
    unusable: list[UnusableBlocks]


class Fragmentations(TypedDict):
    """Fragmentation at the peak and at the end; None if nothing was recorded."""

    at_peak: Fragmentation | None
    at_end: Fragmentation | None


class Frame(TypedDict):
    """A line of code."""

    filename: str
    line: int
    name: str


class FreeBlock(TypedDict):
    """A free block of a segment."""

    address: int
    bytes: int
    stream: int
    kind: str
    pool: list[int] | None


class FunctionCalls(TypedDict):
    """A function, and how often the program called it."""

    function: str
    calls: int


class GraphCapture(TypedDict):
    """A capture of a CUDA graph, or several with no allocation outside of their pool in between."""

    event: int
    """The event of its first allocation."""
    allocations: int
    largest_request_bytes: int
    reserved_bytes: int
    """Bytes of segments that the pool reserved in it."""
    allocated_bytes: int
    """Bytes of the pool's blocks that are allocated after it, minus those before it."""


class GrownLine(TypedDict):
    """A line that holds more bytes than at the peak of the baseline."""

    key: str
    bytes: int
    baseline_bytes: int
    grown_bytes: int


class HighWater(TypedDict):
    """A peak."""

    bytes: int
    event: int | None
    """Event index of the peak, its first occurrence; None before the first event."""
    allocated_bytes: int
    """Allocated bytes at that event."""
    exact: bool


class HighestLine(TypedDict):
    """The bytes of a line at its own peak, independent of other allocations."""

    key: str
    """The line; named as in B if both recordings have it."""
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    at_event: OptionalNumbers
    """Event index of that peak, its first occurrence; None before the first event, and if the recording lacks the line.
    """
    only_in: str | None
    """The only recording that has the line; None if both have it."""


class Holder(TypedDict):
    """A group of live allocations."""

    bytes: int
    requested_bytes: int
    count: int
    key: str
    """The shared property of the group, named as in the text report."""
    preexisting: bool | None
    """Whether the allocations were live before recording began; None in groups that do not distinguish it."""
    stack: list[Frame]
    """Innermost frame first; for a group of several stacks, the stack with the most bytes."""
    freed_at: NotRequired[list[Frame]]
    """For memory live before recording whose allocation was not recorded: the stack that freed it."""
    frames_left_out: NotRequired[int]
    """Number of outer frames left out of `stack` or `freed_at`, beyond the 1,000 innermost."""


class HostCourse(TypedDict):
    """The course of a number of bytes."""

    start_bytes: int
    """At the first reading."""
    peak_bytes: int
    end_bytes: int
    """At the last reading."""
    bytes_per_hour: int | None
    """Growth in bytes per hour, from the median of the second quarter of the time to that of the last; None for less
    than ten minutes.
    """


class HostMemory(TypedDict):
    """The host memory of the recorded process over time, as Linux counts it."""

    from_time_us: int
    """The time of the first reading, in microseconds since the Unix epoch."""
    to_time_us: int
    """The time of the last reading, in microseconds since the Unix epoch."""
    resident: HostCourse
    """Resident bytes of the process."""
    anonymous: HostCourse
    """Of these, anonymous memory."""
    mapped_files: HostCourse
    """Of these, pages of mapped files."""
    shared: HostCourse
    """Of these, shared memory."""
    pinned: HostCourse
    """Bytes that the process pinned through the driver."""
    page_cache: HostCourse | None
    """The page cache of the cgroup of the process; None if it was not read."""


class Idle(TypedDict):
    """Allocations that are live while nothing uses them."""

    launches: int
    """Kernel launches, library calls and copies in the recording."""
    unknown_launches: int
    """The launches whose parameters are unknown; they may have used any memory."""
    lower_bound_bytes: int
    """The peak of allocated bytes if every allocation lived from its first to its last use."""
    findings: list[IdleFinding]
    """First those that need no extra work when mended, then those `between_uses`; each by the fall of the peak."""
    more_findings: int
    """Findings beyond those in `findings`, because of a limit on rows."""
    left_out: int
    """Further findings, which hardly lower the peak, and their bytes."""
    left_out_bytes: int


class IdleFinding(TypedDict):
    """One kind of idle memory at one line, in modules of one name."""

    kind: str
    """`freed_late`, `not_freed`, `allocated_early`, `never_used` or `between_uses`."""
    line: Frame | None
    """The frame of the user's code; None without a stack."""
    module: str | None
    """Path of the modules that allocated, as `h.*.mlp` if their numbers differ; None if no module did."""
    category: str | None
    """The category of all these allocations; None if they differ. Allocations without a stack have one finding for each
    category.
    """
    stack: list[Frame]
    """The stack of the allocation with the longest interval, innermost frame first."""
    frames_left_out: NotRequired[int]
    allocations: int
    """Number of allocations."""
    used_once: bool
    """Whether each of them was used exactly once."""
    bytes: int
    """The most bytes of them that are idle after one event."""
    bytes_at_peak: int
    """Bytes of them that are idle at the peak of allocated bytes."""
    byte_events: int
    """Idle bytes, summed over events."""
    remaining_peak_allocated_bytes: int
    """The peak of allocated bytes without these intervals."""
    longest: IdleInterval


class IdleInterval(TypedDict):
    """The idle interval with the most byte-events."""

    from_event: int | None
    """Event right before the interval; None if it begins before the first event."""
    to_event: int | None
    """Last event of the interval; None if it ends before the first event."""
    events: int
    """Number of events in the interval."""
    duration_us: int | None
    """None if events have no times."""


class Info(TypedDict):
    """The output of `vramscope info --json`."""

    file: str
    format: str
    pickle_protocol: NotRequired[int | None]
    compression: str
    damage: Damage | None
    """Damaged places of the file; None if there are none."""
    cut_off_bytes: int
    """Bytes of an incomplete write at the end of the file."""
    ends_early: bool
    """Whether the recording ends before the program did: it was killed or is still running, or the file was cut."""
    generation: str | None
    features: list[str]
    devices: list[InfoDevice]
    frames: int
    stacks: int
    stack_frames: int
    annotations: int | None
    allocator_conf: str | None
    recording: NotRequired[dict[str, str] | None]
    """How a log of a process was recorded, by name: command, host, user, versions, devices, rank. What is missing is
    unknown.
    """
    bytes_per_event: int
    """Memory of one event in bytes, without its stack."""


class InfoDevice(TypedDict):
    """Basic facts about one device."""

    device: int
    events: int
    actions: dict[str, int]
    skipped_actions: list[str]
    """Kinds of events that were left out of the recording."""
    segments: int
    blocks: int
    first_time_us: int | None
    last_time_us: int | None


class Interval(TypedDict):
    """The output of `vramscope report --at A..B --json`."""

    file: str
    format: str
    devices: list[IntervalDevice]


class IntervalDevice(TypedDict):
    """The allocations and frees of the events on one device."""

    device: int
    first_event: int
    last_event: int
    name: str
    """The name of the step or region, or the range of events."""
    highest_allocated_bytes: int
    highest_event: int | None
    """Event index of the peak of allocated bytes in the range; None before the recording's first event."""
    rise_bytes: int
    """The peak minus the allocated bytes before the first event."""
    before: Amount
    allocated: Amount
    freed: Amount
    freed_from_before: Amount
    temporary: Amount
    survived: Amount
    at_highest: Amount
    after: Amount
    filtered: Spent
    """For the allocations that match `filter`."""
    groups: list[IntervalGroup]
    quality: Quality


class IntervalGroup(TypedDict):
    """The allocations and frees of one group."""

    key: str
    """The shared property of the group, named as in the text report."""
    preexisting: bool | None
    before: Amount
    allocated: Amount
    freed: Amount
    freed_from_before: Amount
    temporary: Amount
    survived: Amount
    at_highest: Amount
    after: Amount
    stack: list[Frame]
    """The stack that allocated the most bytes."""
    freed_at: NotRequired[list[Frame]]
    frames_left_out: NotRequired[int]


class Leak(TypedDict):
    """A line whose live allocations keep growing."""

    line: Frame
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    stacks: int
    floor: list[int]
    """Fewest live allocations from the start of each tenth of the run until its end."""
    allocations: int
    kept: int
    kept_bytes: int
    kept_bytes_by_then: list[int]
    """Bytes of the retained allocations that had been allocated by the end of each tenth of the run."""
    kept_bytes_per_step: int | None
    """Bytes of the retained allocations that one step allocated: the median of all steps. None if no steps are known.
    """
    repetitions: int
    """Number of repetitions in which it grew: steps, epochs, requests or calls."""
    kept_bytes_per_repetition: int
    """Bytes that one repetition retains: the mean."""
    certainty: str
    """`shown`, `likely` or `possible`."""


class LessReserved(TypedDict):
    """Settings under which a run reserves less."""

    add: list[str]
    """Items to add to the recorded settings."""
    remove: list[str]
    """Items to remove from the recorded settings."""
    peak_reserved_bytes: int
    """The peak of reserved bytes in a replay with this change."""
    exact: bool


class Library(TypedDict):
    """What one library holds of one kind of memory, beside PyTorch's allocator."""

    library: str
    """File name of the library or program that called."""
    memory: str
    """`device`, `async`, `physical`, `managed`, `graph` (kept by the driver for CUDA graphs), `graph_node` (an
    allocation of a graph, which shares that memory), `array`, `imported` (allocated by another process), `pinned` or
    `registered`.
    """
    bytes: int
    """Bytes at the event of the holders."""
    count: int
    peak_bytes: int
    end_bytes: int
    line: Frame | None
    """The line of the user's code in `stack`; None without one."""
    stack: list[Frame]
    """Stack of the largest allocation, innermost frame first."""


class LineDifference(TypedDict):
    """A line's bytes in two recordings; `only_in` names the recording if only one has the line."""

    key: str
    """The line; named as in B if both recordings have it."""
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers
    """Allocations over the whole run."""
    only_in: str | None
    """The only recording that has the line; None if both have it."""


class MeasuredUse(TypedDict):
    """A count of the driver, and the memory that the recording has at that time."""

    time_us: int
    """Microseconds since the Unix epoch."""
    used_bytes: int
    """Bytes in use, by all processes."""
    total_bytes: int
    reserved_bytes: int
    """Bytes that PyTorch's allocator had reserved."""
    libraries_bytes: int
    """Bytes of all other libraries."""
    rest_bytes: int
    """`used_bytes` without `reserved_bytes` and `libraries_bytes`: contexts, kernels and other processes. Negative if
    managed memory is not on the device.
    """


class Moment(TypedDict):
    """The counters after an event, and the holders of the allocated bytes there."""

    event: int | None
    """The last event with `at end`; None if the device has none."""
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    holders: list[Holder]
    categories: list[CategoryBytes]


class Nearest(TypedDict):
    """The setting that needs the least memory, if none fits."""

    conf: str
    needed_bytes: int
    """Size of a device that fits the run."""
    missing_bytes: int
    """`needed_bytes` minus the device size."""


class NoEstimate(TypedDict):
    """A change without an estimate."""

    change: str
    name: str
    reason: str


class Numbers(TypedDict):
    """One number for each of two recordings."""

    a: int
    b: int


class Only(TypedDict):
    """The devices that only one of two recordings used."""

    a: list[int]
    b: list[int]


class OptionalNumbers(TypedDict):
    """One number for each of two recordings; None if unknown."""

    a: int | None
    b: int | None


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
    """Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request."""
    usable_bytes: int
    unusable: list[UnusableBlocks]
    largest_free_block: FreeBlock | None
    at_limit: bool
    """Whether the device had room for the request, and a limit on reserved bytes prevented it."""
    enough_in_total: bool
    """Whether the free device memory and the unused reserved memory together would have been enough."""
    missing_bytes: int
    device_total_bytes: int | None
    """Total device memory; None if it was not recorded."""
    lacking_bytes: int
    """Device memory missing for the request."""
    lacking_is_exact: bool
    """False if `lacking_bytes` is an upper bound."""
    causes: list[OutOfMemoryCause]
    """The causes, main cause first."""
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    holders: list[Holder]
    """Holders of `allocated_bytes`, by line."""
    pinned_bytes: int
    """Free memory in holes between blocks; each hole counts once."""
    pinned: list[Pin]
    """The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for
    both.
    """


class OutOfMemoryCause(TypedDict):
    """One cause of a failed request."""

    cause: str
    bytes: int
    decisive: bool
    """Whether the program would have gone on without it."""
    certainty: str
    """How far the recording shows it: `shown`, `likely` or `possible`."""
    line: str | None
    """For a leak: the line; else None."""
    bytes_per_step: int | None
    """For a leak: its growth per step; None if it is unknown."""
    bytes_per_repetition: int | None
    """For a leak: the bytes that one repetition retains, whatever repeats; None for other causes."""


class Outcome(TypedDict):
    """The result of replaying with one setting."""

    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Bytes reserved and not active at the peak of active bytes."""
    segments_allocated: int
    """Whole segments; ranges mapped into expandable segments do not count, as in PyTorch."""
    segments_freed: int
    device_allocs: int
    """Segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None if the device size is unknown."""
    rescued_requests: int
    """Number of requests that failed in the recording and succeed here. What the program would have done afterwards is
    unknown.
    """
    stopped_at_event: int | None
    """The event at which the replay stopped, because the program would have failed there."""


class Peaks(TypedDict):
    """The peak of each kind of bytes, each at its own event, and the event of the allocated peak."""

    peak_event: int | None
    """Event index of the peak of allocated bytes; None if nothing rose above the start."""
    peak_time_us: int | None
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int


class PhantomCard(TypedDict):
    """Whether the program fits on a GPU."""

    name: str
    total_bytes: int
    fits: bool
    verdict: str
    basis: str
    peak_reserved_bytes: int | None
    num_alloc_retries: int


class PhantomDevice(TypedDict):
    """One device of a process, by PyTorch's counters."""

    device: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    num_alloc_retries: int
    num_ooms: int


class PhantomGpu(TypedDict):
    """The memory in use on one GPU."""

    device: int
    peak_bytes: int
    peak_communication_bytes: int
    module_bytes: int
    total_bytes: int


class PhantomProcess(TypedDict):
    """One process of the program."""

    rank: int | None
    torch: str
    recording: str | None
    devices: list[PhantomDevice]


class PhantomRun(TypedDict):
    """The output of `vramscope phantom run --json`."""

    command: list[str]
    gpu: str
    total_bytes: int
    context_bytes: int
    context_high_bytes: int
    fits: bool
    verdict: str
    certainty: Certainty
    exit_code: int | None
    signal: int | None
    timed_out: bool
    gpus: list[PhantomGpu]
    fullest_gpu: int | None
    fullest_rank: int | None
    processes: list[PhantomProcess]
    smallest_gpu: PhantomCard | None
    cards: list[PhantomCard] | None
    needed_bytes: int | None
    needed_low_bytes: int | None
    conf_that_fits: str | None
    launches: int
    values_read: int
    results_read: int
    collectives: int
    unanswered: list[UnansweredCall]
    read_at: list[ReadAt]
    asked_memory_at: list[AskedMemoryAt]
    unrecorded_processes: int
    unrecorded_reason: str | None


class Phase(TypedDict):
    """One phase of a step."""

    phase: str
    """`forward`, `backward`, `optimizer` or `zero_grad`."""
    told_by: str
    """`recorded`, `region`, `stacks` or `rhythm`; the last two are inferred."""
    step: int | None
    """Number of the step, from 1; None outside of all steps."""
    first_event: int
    """Half-open range `first_event..end_event` of event indices."""
    end_event: int
    """One past the last event index."""
    peak_allocated_bytes: int
    peak_event: int | None
    """Event index of the peak; None before the first event."""
    allocated_bytes: int
    """Bytes and number of all blocks allocated in the phase."""
    allocations: int
    kept_bytes: int
    """Allocated bytes after the phase minus those before."""


class Pin(TypedDict):
    """A line whose blocks keep free memory apart."""

    key: str
    preexisting: bool
    """Whether the blocks were live before recording began."""
    bytes: int
    """Bytes of the holes next to its blocks; each hole counts once."""
    holes: int
    alone_bytes: int
    """The part of `bytes` in segments without blocks of other lines."""
    joined_bytes: int
    """The largest hole without these blocks."""
    blocks: int
    """The number of its blocks next to these holes."""
    block_bytes: int


class PlanReplay(TypedDict):
    """The result of replaying with a plan before the allocator of the replayed settings."""

    step: int | None
    """The planned step, from 1; None if nothing repeats, or if the plan comes from a file."""
    startup_requests: int
    """Number of requests before the planned step."""
    step_requests: int
    """Number of requests of the planned step."""
    planned_bytes: int
    """Bytes of the plan's segments."""
    shares_streams: bool
    """Whether streams share a segment."""
    waits_per_step: int
    """Number of requests of a planned step that get memory which another stream used last, so that their stream waits
    for that one.
    """
    waits: int
    """Number of such requests of the replay."""
    separate: Outcome | None
    """The result with a segment for each stream; None if streams share none, or if the plan comes from a file."""
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Bytes reserved and not active at the peak of active bytes."""
    segments_allocated: int
    """Whole segments; ranges mapped into expandable segments do not count, as in PyTorch."""
    segments_freed: int
    device_allocs: int
    """Segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None if the device size is unknown."""
    rescued_requests: int
    """Number of requests that failed in the recording and succeed here. What the program would have done afterwards is
    unknown.
    """
    stopped_at_event: int | None
    """The event at which the replay stopped, because the program would have failed there."""
    oom_event: int | None
    planned: ServedRequests
    """Requests at their planned places."""
    left_to_allocator: ServedRequests
    """Requests that the plan leaves to the allocator, because their lifetimes do not repeat."""
    differing: ServedRequests
    """Requests that differ from the plan: another size, another order, or a private pool."""
    in_use: ServedRequests
    """Requests whose planned places were still in use."""
    no_memory: ServedRequests
    """Requests without memory at their planned places."""
    dynamic_lines: list[DynamicLine]
    """The lines with the most bytes that were not at planned places, largest first."""


class PrivatePool(TypedDict):
    """A private pool at the end of the recording."""

    pool: list[int]
    segments: int
    reserved_bytes: int
    allocated_bytes: int
    blocks: int
    peak_allocated_bytes: int
    """The most bytes that were allocated in it."""
    of_graphs: bool
    """Whether it belongs to CUDA graphs, by its id or by the function that begins a capture."""
    captures: list[GraphCapture]
    """What each capture of a CUDA graph added to the pool, in order. Captures are inferred: no allocation outside of
    the pool comes within one.
    """


class Promise(TypedDict):
    """The bytes that a change should free, and those by which B is lower than A; negative if B is higher."""

    promised_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    end_allocated_bytes: int
    end_reserved_bytes: int
    sentences: list[str]
    """A verdict, then the peaks and the end, in sentences."""


class Quality(TypedDict):
    """How reliable the numbers are."""

    exact: bool
    """Whether allocated and active bytes are exact."""
    preexisting_blocks: int
    inferred_sizes: int
    size_mismatches: int
    lost_events: int
    segment_contradictions: int
    end_state_disagreements: int
    end_state_disagreement_bytes: int
    size_contradictions: int
    """Number of sizes that contradict each other, such as those of an allocation and its free."""
    damaged: bool
    """Whether events may be missing because the file is damaged."""
    ends_early: bool
    """Whether the recording ends before the program did: it was killed or is still running, or the file was cut."""
    settings_assumed: bool
    seen_from_outside: bool
    """Whether requested bytes, streams and pools are unknown: the recording was made from outside of the allocator."""
    older_allocations: int
    """Number of allocations that are older than the log, which was cut."""
    attached: bool
    """Whether the recorder was attached to a process that used a GPU already, so that memory from before is unknown."""
    stacks_from_bytes: int | None
    """Only allocations of at least this many bytes have stacks; None for no such limit."""
    probably_overflowed: bool
    reproduced: bool | None
    """Whether the allocator's rules reproduce every address, every segment event and the layout at the end."""
    skipped_actions: list[str]
    """Kinds of events that were left out of the recording."""
    lifetimes_inferred: bool
    """Whether lifetimes of blocks are partly inferred, because of `skipped_actions`."""
    no_segment_events: bool
    """Whether no segment event was recorded, and it is unknown whether they were left out."""


class ReadAt(TypedDict):
    """A line of the program that reads values of the GPU."""

    line: str | None
    reads: int
    computed_at: str | None
    """The line that computed the values, if the run followed values."""
    operator: str | None
    """The operator that computed them, as `aten::topk`."""


class Recorded(TypedDict):
    """The figures of the recording itself."""

    peak_reserved_bytes: int
    segments_allocated: int
    segments_freed: int


class ReferredTensor(TypedDict):
    """A tensor to which Python objects referred when the snapshot was taken."""

    event: int | None
    """The allocation; None if it is older than the recording."""
    free_event: int | None
    """Its free; None if it was not freed."""
    address: int
    bytes: int
    name: str | None
    """Name of a parameter, of its gradient or of an optimizer state, as `gradient of fc.weight`; None for other
    tensors.
    """
    dtype: str
    """Type of the values, as `float32`."""
    shape: str
    """The shape, as `(1024, 768)`."""
    referrers: list[str]
    """Chains of references from a variable to the tensor, at most three."""


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
    """One run of a region."""

    peak_allocated_bytes: int
    peak_above_start_bytes: int
    net_bytes: int
    us: int
    first_event: NotRequired[int | None]
    """Half-open range `first_event..end_event` of event indices; absent for figures of several runs."""
    end_event: NotRequired[int | None]
    """One past the last event index. Both indices are present only for single runs."""


class Remedy(TypedDict):
    """A change other than a setting."""

    change: str
    """`remove_limit`, `free_outside`, `default_pool`, `no_waiting` or `larger_device`."""
    peak_reserved_bytes: int
    needed_bytes: int | None
    """For a larger device: its size in bytes."""


class Replay(TypedDict):
    """The result of replaying the recorded requests."""

    device: int
    events: int
    torch: str | None
    """The PyTorch release whose rules were followed; None if the recording is not from PyTorch."""
    conf: str
    """The settings of `replayed`."""
    recorded_conf: str
    capacity_bytes: int | None
    overhead_bytes: int | None
    capacity_from: str | None
    """`given`, or `recording`: inferred from the allocator's memory when the recording ran out of memory."""
    recorded: Recorded
    replayed: Replayed
    reproduces_recording: bool | None
    """None if the requested settings differ from the recorded ones, nothing was recorded, or events that are needed for
    the comparison were left out.
    """
    first_divergence: Divergence | None
    compared_end: bool
    """Whether the layout at the end could be compared."""
    exact: bool
    """Whether the numbers of `replayed` are exact."""
    approximate_because: list[str]
    what_if: list[Tried]
    """The compared settings, best first."""
    what_if_approximate_because: list[str]
    """Like `approximate_because`, for settings other than the recorded ones."""
    plan: PlanReplay | None
    """With `plan`; None if it was not requested, or if the recording is too large for a plan."""
    floors: Floors
    smallest_capacity_bytes: int | None
    """With `find_capacity`; None if none was found."""
    smallest_gpu: FittingGpu | None
    """With `find_capacity`: the known GPU with the least memory that fits the run."""
    nearest: Nearest | None
    """Present if no tried setting fits on the device."""


class ReplayOutOfMemory(TypedDict):
    """The request that fails in a replay."""

    recorded: bool
    """Whether it also failed in the recording."""
    event: int
    time_us: int | None
    requested_bytes: int
    stream: int
    device_free_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    reserved_unused_bytes: int
    """Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request."""
    usable_bytes: int
    unusable: list[UnusableBlocks]
    largest_free_block: FreeBlock | None
    at_limit: bool
    """Whether the device had room for the request, and a limit on reserved bytes prevented it."""
    enough_in_total: bool
    """Whether the free device memory and the unused reserved memory together would have been enough."""
    missing_bytes: int
    device_total_bytes: int | None
    """Total device memory; None if it was not recorded."""
    lacking_bytes: int
    """Device memory missing for the request."""
    lacking_is_exact: bool
    """False if `lacking_bytes` is an upper bound."""
    causes: list[OutOfMemoryCause]
    """The causes, main cause first."""
    stack: list[Frame]
    frames_left_out: NotRequired[int]
    holders: list[Holder]
    """Holders of `allocated_bytes`, by line."""
    pinned_bytes: int
    """Free memory in holes between blocks; each hole counts once."""
    pinned: list[Pin]
    """The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for
    both.
    """


class Replayed(TypedDict):
    """The result of the requested settings."""

    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Bytes reserved and not active at the peak of active bytes."""
    segments_allocated: int
    """Whole segments; ranges mapped into expandable segments do not count, as in PyTorch."""
    segments_freed: int
    device_allocs: int
    """Segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None if the device size is unknown."""
    rescued_requests: int
    """Number of requests that failed in the recording and succeed here. What the program would have done afterwards is
    unknown.
    """
    stopped_at_event: int | None
    """The event at which the replay stopped, because the program would have failed there."""
    oom: ReplayOutOfMemory | None


class ReplayedDevices(TypedDict):
    """The output of `vramscope replay --json`."""

    file: str
    devices: list[Replay]


class Report(TypedDict):
    """The output of `vramscope report --json`."""

    file: str
    format: str
    damage: Damage | None
    """Damaged places of the file; None if there are none."""
    devices: list[Device]


class ServedRequests(TypedDict):
    """A number of requests and their bytes, rounded up to multiples of 512."""

    requests: int
    bytes: int


class ServingMemory(TypedDict):
    """The memory of a program with a KV cache. All parts but the activations are those at the end, and add up to the
    allocated bytes there.
    """

    event: int | None
    """The event after which the parts are counted: the last one, or, if the program frees its KV cache, the last one of
    the cache's peak; None before the first event.
    """
    weights_bytes: int
    kv_cache_bytes: int
    graphs_bytes: int
    """Other blocks in private pools, such as those of CUDA graphs."""
    other_bytes: int
    activations_bytes: int
    """The most bytes of other blocks that are freed by then."""
    activations_event: int | None
    """The event of that peak; None before the first event."""


class SettingDifference(TypedDict):
    """A setting, as in `PYTORCH_CUDA_ALLOC_CONF`; None if it is not recorded."""

    key: str
    a: str | None
    b: str | None


class Side(TypedDict):
    """One side of a difference."""

    what: str
    """The event's action, or the block's state."""
    address: int
    bytes: int


class Spent(TypedDict):
    """Amounts of allocations in a range of events."""

    before: Amount
    allocated: Amount
    freed: Amount
    freed_from_before: Amount
    temporary: Amount
    survived: Amount
    at_highest: Amount
    after: Amount


class StackDifference(TypedDict):
    """A stack's bytes in two recordings."""

    stack: list[Frame]
    """Innermost frame first; from B if both recordings have the stack."""
    category: str | None
    bytes: Numbers
    count: Numbers
    difference_bytes: int
    allocations: Numbers
    """Allocations over the whole run."""


class Step(TypedDict):
    """One step."""

    first_event: int
    """Half-open range `first_event..end_event` of event indices."""
    end_event: int
    """One past the last event index."""
    peak_allocated_bytes: int
    peak_event: int | None
    """Event index of the peak; None before the first event."""
    allocated_bytes: int
    """Bytes and number of all blocks allocated in the step."""
    allocations: int
    kept_bytes: int
    """Allocated bytes after the step minus those before."""
    is_usual: bool
    """Whether most steps make the same allocations."""


class Steps(TypedDict):
    """The steps and their source."""

    told_by: str
    """`annotations`, `optimizer` or `rhythm`."""
    first_unusual: int | None
    """Index (from 0) of the first step, after the very first, whose allocations differ from those of most steps."""
    steps: list[Step]
    """In order of time."""


class Tried(TypedDict):
    """A tried setting and its result."""

    conf: str
    recorded: bool
    """Whether these are the recorded settings."""
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    end_reserved_bytes: int
    external_fragmentation_bytes: int
    """Bytes reserved and not active at the peak of active bytes."""
    segments_allocated: int
    """Whole segments; ranges mapped into expandable segments do not count, as in PyTorch."""
    segments_freed: int
    device_allocs: int
    """Segments and mapped ranges."""
    device_frees: int
    num_alloc_retries: int
    fits: bool | None
    """None if the device size is unknown."""
    rescued_requests: int
    """Number of requests that failed in the recording and succeed here. What the program would have done afterwards is
    unknown.
    """
    stopped_at_event: int | None
    """The event at which the replay stopped, because the program would have failed there."""
    oom_event: int | None
    add: list[str]
    """Settings added to and removed from the recorded ones."""
    remove: list[str]
    """Items to remove from the recorded settings."""


class UnansweredCall(TypedDict):
    """A call that the phantom GPU did not execute as a GPU would."""

    name: str
    calls: int
    kind: str


class UnexplainedOoms(TypedDict):
    """Failed requests without explanations."""

    first: FailedRequest
    last: FailedRequest
    largest: FailedRequest


class UnusableBlocks(TypedDict):
    """Free blocks that could not serve a request, grouped by reason."""

    why: Why
    bytes: int
    blocks: int
    largest_bytes: int


class Verdict(TypedDict):
    """The verdict on one budget."""

    budget: str
    status: str
    """`kept`, `exceeded` or `unknown`."""
    unknown_because: str | None
    text: str
    """The verdict as in the text output."""
    kind: NotRequired[str | None]
    """`requested`, `allocated`, `active` or `reserved`."""
    limit_bytes: NotRequired[int | None]
    """The largest peak that keeps the budget; None without a baseline peak."""
    peak: NotRequired[HighWater]
    holders: NotRequired[list[Holder]]
    max_growth_bytes: NotRequired[int | None]
    max_growth_percent: NotRequired[float | None]
    """None if the budget is in bytes."""
    baseline_peak: NotRequired[HighWater | None]
    grown: NotRequired[list[GrownLine]]
    """Lines with more bytes than at the baseline's peak, largest growth first."""
    category: NotRequired[str]
    peak_bytes: NotRequired[int]
    peak_event: NotRequired[int | None]
    """Event index of the peak, its first occurrence; None before the first event."""
    leaks: NotRequired[list[Leak]]
    ooms: NotRequired[list[OutOfMemory]]
    more_ooms: NotRequired[int]


Why = Literal["too_small", "other_stream", "other_size_class", "other_pool", "max_split_size"]
"""Why a free block cannot serve a request."""
