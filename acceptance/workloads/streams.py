"""Make tensors of random sizes on three streams, and record for some of them that another stream uses them."""

import random

import torch

import measure

LIVE_TENSORS = 15
STEPS_PER_ITERATION = 20


def streams(iterations):
    chance = random.Random(4)
    choices = [torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()]
    live = []
    for _ in range(iterations * STEPS_PER_ITERATION):
        with torch.cuda.stream(chance.choice(choices)):
            tensor = torch.empty(chance.randint(1, 16 << 20), dtype=torch.uint8, device="cuda")
        if chance.random() < 0.3:
            tensor.record_stream(choices[0])
        live.append(tensor)
        if len(live) > LIVE_TENSORS:
            live.pop(chance.randrange(len(live)))


if __name__ == "__main__":
    measure.main(streams, iterations=4)
