#!/usr/bin/env bash
# Builds the fuzz targets with clang, libFuzzer and the sanitizers, and runs each for a while.
#   tools/run_fuzz.sh [TARGET...]   all targets if none is named
#   FUZZ_SECONDS                    how long each target runs; 30 by default
# A target starts from its corpus. What it finds goes to build/fuzz/new/<target>/; an input that
# breaks a promise goes to build/fuzz/broken/, and the run fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

build=build/fuzz
seconds=${FUZZ_SECONDS:-30}
mkdir -p "$build/broken"
if ! { cmake -S . -B "$build" -G Ninja --log-level=WARNING -DCMAKE_C_COMPILER=clang \
    -DNEAP_BUILD_FUZZ=ON -DNEAP_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g" &&
    cmake --build "$build" -- --quiet; } >"$build/build.log" 2>&1; then
    cat "$build/build.log"
    exit 1
fi

rm -rf "$build/corpus"
python3 tools/fuzz_corpus.py unpack "$build/corpus" || exit 1
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(ls "$build/corpus")
status=0
for target in "${targets[@]}"; do
    mkdir -p "$build/new/$target"
    log=$build/$target.log
    if "$build/fuzz_$target" -dict=tests/fuzz/neap.dict -max_len=4096 -timeout=60 \
        -max_total_time="$seconds" -artifact_prefix="$build/broken/$target-" \
        "$build/new/$target" "$build/corpus/$target" >"$log" 2>&1; then
        echo "ok      fuzz_$target: $(tail -n 1 "$log"); $(find "$build/new/$target" -type f | wc -l) new inputs"
    else
        tail -n 60 "$log"
        echo "FAILED  fuzz_$target: see $log and $build/broken/"
        status=1
    fi
done
exit $status
