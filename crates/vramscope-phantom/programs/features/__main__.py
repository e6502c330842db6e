"""What programs do with PyTorch, on a phantom GPU: each case asserts what it can know without values.

    vramscope phantom run --once -- python features [SUBJECT ...]

Without a subject it runs all but `limits`, whose cases run out of memory on purpose, and `values`, whose cases need
`--values random=SEED`. Ends with 1 where a case failed.
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
