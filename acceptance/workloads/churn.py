"""Keep a randomly changing live set, with sizes from 512 bytes to 256 MiB, to fragment memory on purpose."""

import random

import torch

import measure

# Exponents of two: each size is drawn between this power and the next.
EXPONENTS = [9, 12, 16, 19, 20, 21, 22, 23, 24, 25, 26, 27]
LIVE_BYTES = 6 << 30
STEPS_PER_ITERATION = 400


def churn(iterations):
    chance = random.Random(5)
    live = []
    live_bytes = 0

    def drop_one():
        return live.pop(chance.randrange(len(live))).numel()

    for _ in range(iterations * STEPS_PER_ITERATION):
        if live and chance.random() < 0.5:
            live_bytes -= drop_one()
        exponent = chance.choice(EXPONENTS)
        size = chance.randint(1 << exponent, 2 << exponent)
        live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        live_bytes += size
        while live_bytes > LIVE_BYTES:
            live_bytes -= drop_one()


if __name__ == "__main__":
    measure.main(churn, iterations=2)
