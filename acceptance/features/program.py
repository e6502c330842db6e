"""Features of PyTorch that programs use, on a phantom GPU. Each case asserts facts that hold without computed values.

    vramscope phantom run --once -- python acceptance/features/program.py [SUBJECT ...]

Without a subject it runs all but two: the cases of `limits` run out of memory on purpose, and those of `values` need
`--values random=SEED`. Prints a line for each case, and exits with 1 if one fails.
"""

import sys

import attention, cases, compiled, convolutions, graphs, history, limits, linear_algebra, loading, memory, operators
import optimizers, precision, recurrent, tools, adapters, generation, quantized, values

ALL = [
    attention, compiled, convolutions, graphs, history, linear_algebra, loading, memory, operators, optimizers, precision,
    recurrent, tools, adapters, generation, quantized,
]

if __name__ == "__main__":
    cases.main(sys.argv[1:] or [subject.__name__ for subject in ALL])
