"""What programs need not wait for on a GPU whose kernels compute nothing, nor check."""

import functools
import threading


def without_checks(torch):
    """Distributions are not asked whether their parameters are allowed: on the GPU these are values."""
    if hasattr(torch, "distributions"):
        torch.distributions.Distribution.set_default_validate_args(False)


class Generations(threading.local):
    """Of each call of `generate()` that this thread is in: whether it has reached its longest; None before it knows."""

    def __init__(self):
        self.at_longest = []


def longest_generation(utils):
    """Has `generate()` of transformers go on to its longest: that a sequence ends before is a value, its length is none."""
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
