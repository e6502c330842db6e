"""Run a workload with PyTorch's allocator or with vramscope's pool, and write the recorded history as FOLDER/run.pickle.

    program.py torch|pool|plan FOLDER WORKLOAD [ARGUMENT...]

`plan` runs the pool with FOLDER/run.plan in the checking mode, and prints how many requests the plan served.
"""

import json
import runpy
import sys

import torch


def main(allocator, folder, workload, *arguments):
    pool = None
    if allocator == "torch":
        torch.cuda.memory._record_memory_history(context=None)
    else:
        import vramscope.torch

        with_plan = allocator == "plan"
        pool = vramscope.torch.use_pool(plan=f"{folder}/run.plan" if with_plan else None, check=with_plan)
        pool.record_history()
    sys.argv = [workload, *arguments]
    runpy.run_path(workload, run_name="__main__")
    dump = pool.dump_snapshot if pool else torch.cuda.memory._dump_snapshot
    dump(f"{folder}/run.pickle")
    if allocator == "plan":
        print(json.dumps({"plan_use": pool.plan_use(), "plan_waits": pool.plan_waits()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
