#!/usr/bin/env bash
# Fuzzes from the corpus: fuzz/run.sh SECONDS TARGET... New findings go to a scratch corpus, so the repository's corpus stays small.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/../.ci/shell.sh"
seconds=$(($1 / ($# - 1)))
command -v cargo-fuzz >/dev/null || cargo install --quiet cargo-fuzz
for target in "${@:2}"; do
    say "fuzzing $target for $seconds s"
    scratch=$(mktemp -d)
    cp "fuzz/corpus/$target"/* "$scratch"
    # libFuzzer's hooks need a flag of the nightly compiler; RUSTC_BOOTSTRAP enables it in the stable one. Leaks are checked once, at the
    # end, when none of our threads is left. libFuzzer would also check between runs, while a finished thread may still be about to exit:
    # once in about 300,000 runs, glibc's own exit handler list (32 bytes) was reported as leaked.
    (cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" "$scratch" -- -detect_leaks=0 \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=20000)
done
