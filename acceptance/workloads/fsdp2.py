"""Train eight layers of the transformer of fsdp2_70b.py, sharded over all ranks by FSDP2.

vramscope phantom run --world-size 64 --rank 3 -- python fsdp2.py --iterations 4
"""

import torch.distributed as dist

import fsdp2_70b
import measure


def fsdp2(iterations):
    fsdp2_70b.train(layers=8, steps=iterations, length=4096)
    dist.destroy_process_group()


if __name__ == "__main__":
    measure.main(fsdp2, iterations=4)
