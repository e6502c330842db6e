#!/bin/sh
# Records programs.py on phantom GPUs: record.sh VRAMSCOPE PYTHON [PROGRAM ...]. Needs PyTorch 2.11, cc and zstd.
set -eu
cd "$(dirname "$0")"
vramscope=$1 python=$2
shift 2
small="--memory 1GiB --context 200MiB"
split="--conf max_split_size_mb"
record() {
    name=$1
    shift
    if [ -z "$chosen" ] || echo " $chosen " | grep -q " $name "; then
        "$vramscope" phantom run --once "$@" --record "$name.pickle" -- "$python" -B programs.py "$name" || [ $? -eq 1 ]
        zstd -q -19 -f --rm "$name.pickle"
    fi
}
chosen=$*
echo 'int cudaEventQuery(void *event) { (void)event; return 600; /* cudaErrorNotReady */ }' >late.c
LATE=$PWD/late.so
export LATE
cc -shared -fPIC -o "$LATE" late.c
record stranded
record reused
record captures
record pool_steps
# shellcheck disable=SC2086 # two options each
{
    record late $small
    record late_and_too_small $small
    record advice_was_on $small --conf expandable_segments:True
    record advice_does_not_help $small
    record advice_helps $small
    record unsplit $split:128,expandable_segments:True
    record split $split:128,expandable_segments:True
    record unsplit_prefill $split:64
    record growing $split:64
}
engine=../../../../acceptance/serving/vllm
for name in ddp fsdp named_alike; do
    record $name --world-size 4 --rank 1
done
CUMEM=$PWD/cumem.so
export CUMEM
cc -shared -fPIC -o "$CUMEM" "$engine/device_allocator/cumem.c"
if [ -z "$chosen" ] || [ "$chosen" = serving ]; then
    "$vramscope" phantom run --once --record serving.pickle -- \
        "$python" -B "$engine/v1/worker/gpu_model_runner.py" serving.json
    zstd -q -19 -f --rm serving.pickle
fi
rm late.c late.so cumem.so
