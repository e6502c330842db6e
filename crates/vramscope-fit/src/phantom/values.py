"""Skips waits and checks of programs that depend on values, on a GPU whose kernels compute nothing."""

import ctypes
import functools
import math
import threading
import weakref


def without_checks(torch):
    """Turns off the validation of distribution parameters, which would read values from the GPU."""
    if hasattr(torch, "distributions"):
        torch.distributions.Distribution.set_default_validate_args(False)


class Scale:
    """The scale of a `GradScaler` on a GPU, as if every gradient were finite."""

    def __init__(self, value, growth_tracker):
        # None if a GPU tensor set it.
        self.value = single(value)
        # Updates since the scale last grew.
        self.growth_tracker = growth_tracker

    def update(self, scaler):
        """Applies the rule of `torch._amp_update_scale_`."""
        self.growth_tracker += 1
        if self.growth_tracker == scaler.get_growth_interval():
            self.growth_tracker = 0
            if self.value is not None:
                grown = single(self.value * scaler.get_growth_factor())
                self.value = grown if math.isfinite(grown) else self.value


def single(value):
    """Rounds to single precision, as the GPU stores the scale."""
    return ctypes.c_float(value).value


def finite_gradients(torch):
    """Makes gradient scalers behave as in a run whose gradients are all finite: they never skip a step.

    The scale and the flag for infinite gradients are values on the GPU, which read as zeros or random numbers here.
    """
    scaler = getattr(getattr(torch, "amp", None), "GradScaler", None)
    names = ("get_scale", "_get_growth_tracker", "update", "load_state_dict", "_maybe_opt_step")
    if scaler is None or not all(hasattr(scaler, name) for name in names):
        return
    get_scale, get_growth_tracker, update, load_state_dict, maybe_step = (getattr(scaler, name) for name in names)
    scales = weakref.WeakKeyDictionary()

    def scale_of(self):
        """Returns the scale of a scaler whose scale is on a GPU; None for others."""
        if not self.is_enabled() or self._scale is None or self._scale.device.type != "cuda":
            return None
        return scales.setdefault(self, Scale(self._init_scale, self._init_growth_tracker))

    @functools.wraps(get_scale)
    def known_scale(self):
        scale = scale_of(self)
        return get_scale(self) if scale is None or scale.value is None else scale.value

    @functools.wraps(get_growth_tracker)
    def known_growth_tracker(self):
        scale = scale_of(self)
        return get_growth_tracker(self) if scale is None else scale.growth_tracker

    @functools.wraps(update)
    def watched_update(self, new_scale=None):
        update(self, new_scale)
        scale = scale_of(self)
        if scale is None:
            return
        if new_scale is None:
            scale.update(self)
        else:
            scale.value = single(new_scale) if isinstance(new_scale, float) else None

    @functools.wraps(load_state_dict)
    def watched_load(self, state_dict):
        load_state_dict(self, state_dict)
        # The loaded values are also the scaler's initial values.
        scales.pop(self, None)

    @functools.wraps(maybe_step)
    def always_step(self, optimizer, optimizer_state, *arguments, **options):
        if scale_of(self) is None:
            return maybe_step(self, optimizer, optimizer_state, *arguments, **options)
        return optimizer.step(*arguments, **options)

    scaler.get_scale, scaler._get_growth_tracker, scaler.update = known_scale, known_growth_tracker, watched_update
    scaler.load_state_dict, scaler._maybe_opt_step = watched_load, always_step


class Generations(threading.local):
    """For each active call of `generate()` in this thread: whether it has reached its maximum length; None until it is known."""

    def __init__(self):
        self.at_longest = []


def longest_generation(utils):
    """Makes `generate()` of transformers run to its maximum length, because an earlier end of a sequence depends on values."""
    model, criteria = utils.GenerationMixin, utils.StoppingCriteriaList
    if not hasattr(model, "_has_unfinished_sequences"):
        return
    generate, stop, goes_on = model.generate, criteria.__call__, model._has_unfinished_sequences
    generations = Generations()

    @functools.wraps(generate)
    def watched_generate(self, *arguments, **options):
        generations.at_longest.append(None)
        try:
            return generate(self, *arguments, **options)
        finally:
            generations.at_longest.pop()

    @functools.wraps(stop)
    def watched_stop(self, input_ids, *arguments, **options):
        if generations.at_longest and self.max_length is not None:
            generations.at_longest[-1] = input_ids.shape[1] >= self.max_length
        return stop(self, input_ids, *arguments, **options)

    @functools.wraps(goes_on)
    def until_longest(self, *arguments, **options):
        at_longest = generations.at_longest[-1] if generations.at_longest else None
        return goes_on(self, *arguments, **options) if at_longest is None else not at_longest

    model.generate, criteria.__call__, model._has_unfinished_sequences = watched_generate, watched_stop, until_longest
