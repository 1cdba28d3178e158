#!/usr/bin/env bash
# Lint, then build and run every test with gcc, with clang and under the sanitizers.
#   NEAP_TEST_CONFIGS="gcc clang asan"  which builds to test
#   NEAP_TEST_JOBS                      test programs run at the same time; all cores by default
#   NEAP_TEST_TIMEOUT                   seconds one test program may take
#   NEAP_TEST_FULL=1                    every case in every build
# gcc runs every case, except that the longest random tests draw half as many; the sanitizers run every
# test program, with a share of the cases of long tests (CMake's NEAP_TEST_REDUCED); clang builds every test
# program and runs those of unit/, cli/ and fuzz/, likewise with a share of the cases. A passing
# program shows its summary lines and why it skipped something, a failing one everything;
# build/<config>/logs/ has all of it, with the time each took. The last line is "N passed, M failed": lint
# checks and test programs over all builds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec 2>&1

configs=${NEAP_TEST_CONFIGS:-gcc clang asan}
jobs=${NEAP_TEST_JOBS:-$(nproc)}
export NEAP_TEST_TIMEOUT=${NEAP_TEST_TIMEOUT:-600}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} # tests share cores; spinning threads take them

passed=0
failures=()

record() { # NAME EXIT_STATUS
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failures+=("$1")
        echo "FAILED  $1"
    fi
}

lint() { # NAME COMMAND...
    local name=$1 status=0
    shift
    "$@" || status=$?
    record "lint: $name" $status
}

# Configures and builds build/$1; prints the log only if that fails.
build() {
    local config=$1 log=build/$1/build.log
    local options=(-DNEAP_WERROR=ON -DNEAP_BUILD_TESTS=ON)
    options+=("-DNEAP_TEST_FULL=${NEAP_TEST_FULL:-OFF}")
    case $config in
        gcc) options+=(-DCMAKE_C_COMPILER=gcc) ;;
        clang) options+=(-DCMAKE_C_COMPILER=clang -DNEAP_TEST_REDUCED=ON) ;;
        asan) options+=(-DCMAKE_C_COMPILER=gcc -DNEAP_SANITIZE=ON -DNEAP_TEST_REDUCED=ON
            -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1") ;;
        *)
            echo "NEAP_TEST_CONFIGS: no such build: $config (there are: gcc clang asan)"
            return 1
            ;;
    esac
    mkdir -p "build/$config"
    if ! { cmake -S . -B "build/$config" -G Ninja --log-level=WARNING "${options[@]}" &&
        cmake --build "build/$config" -- -k 0 --quiet; } >"$log" 2>&1; then
        cat "$log"
        return 1
    fi
}

# Runs the test program of one line of tests.list, leaving <name>.log, <name>.status and <name>.time
# ("real user sys", in seconds) in $1.
run_one() {
    local logs=$1 output name program log status=0
    read -r output name program <<<"$2"
    log=$logs/${name//\//.}
    export TMPDIR=$log.tmp TIMEFORMAT='%R %U %S'
    mkdir -p "$TMPDIR"
    { time timeout "$NEAP_TEST_TIMEOUT" "$program" >"$log.log" 2>&1 </dev/null; } 2>"$log.time" ||
        status=$?
    if [ $status -eq 124 ]; then
        echo "stopped after $NEAP_TEST_TIMEOUT s" >>"$log.log"
    elif [ $status -eq 0 ] && grep -q '^\[  FAILED  \]' "$log.log"; then
        echo "exit status 0, but a test failed" >>"$log.log"
        status=1
    elif [ $status -eq 0 ] && [ "$output" = cmocka ] &&
        ! grep -Eq '^\[  (PASSED|SKIPPED) +\] [1-9][0-9]* test\(s\)' "$log.log"; then
        echo "exit status 0, but no test ran" >>"$log.log"
        status=1
    elif [ $status -eq 0 ] && grep -q '^\[  SKIPPED \]' "$log.log" &&
        ! grep -q '^skipped: ' "$log.log"; then
        echo "a test was skipped without a reason (skip_because of tests/support/settings.h)" >>"$log.log"
        status=1
    elif [ $status -ne 0 ]; then
        echo "exit status $status" >>"$log.log"
    fi
    rm -rf "$TMPDIR"
    echo $status >"$log.status"
}
export -f run_one

# The list $1 in the order to run it: first what takes long, so that no core waits for it at the end.
# The times are those of the last run, in $2; without one, what is known to take minutes comes first, then
# kinds that tend to take long.
longest_first() {
    awk -v times="$2" '
        BEGIN {
            seconds["unit/test_cuda_kernels"] = seconds["property/test_bit_identity"] = 2000
            while ((getline line <times) > 0) { split(line, f, " "); seconds[f[2]] = f[1] }
            split("unit torture fuzz anchors cli property", kinds, " ")
            for (i in kinds) rank[kinds[i]] = i
        }
        {
            split($2, path, "/")
            print ($2 in seconds ? seconds[$2] : 1000 + rank[path[1]]) "\t" $0
        }' "$1" | sort -rn | cut -f 2-
}

# The tests of the list $1 that a build runs: all, or those of unit/, cli/ and fuzz/ with clang.
chosen() {
    if [ "$2" = clang ] && [ "${NEAP_TEST_FULL:-}" != 1 ]; then
        grep -E '^(plain|[a-z]+ (unit|cli|fuzz)/)' "$1"
    else
        cat "$1"
    fi
}

# "CPU-seconds name" of every test of the list $1, from the logs in $2.
cpu_times() {
    local output name program
    while read -r output name program; do
        awk -v name="$name" 'END { printf "%.1f %s\n", $2 + $3, name }' "$2/${name//\//.}.time"
    done <"$1"
}

test_config() {
    local config=$1 output name program log status
    local logs=$PWD/build/$config/logs list=build/$config/chosen.list times=build/$config/times
    echo
    echo "== $config"
    if ! build "$config"; then
        record "$config: build" 1
        return
    fi
    python3 tools/check_symbols.py "build/$config"
    record "$config: symbols" $?
    if [ "$config" = gcc ]; then
        tools/check_install.sh "build/$config"
        record "$config: install" $?
    fi
    rm -rf "$logs"
    mkdir -p "$logs"
    chosen "build/$config/tests.list" "$config" >"$list"
    longest_first "$list" "$times" |
        xargs -r -d '\n' -P "$jobs" -n 1 bash -c 'run_one "$@"' run_one "$logs" 2>/dev/null
    cpu_times "$list" "$logs" >"$times"
    while read -r output name program; do
        log=$logs/${name//\//.}
        status=$(cat "$log.status" 2>/dev/null || echo 1)
        if [ "$status" -ne 0 ] || [ "$output" = plain ]; then
            cat "$log.log"
        else
            awk '/^\[  PASSED  \]/ || (/^(skipped:|\[  SKIPPED \])/ && !seen[$0]++)' "$log.log"
        fi
        record "$config: $name" "$status"
    done <"$list"
    if ! grep -q '^cmocka ' "$list"; then
        echo "tests/ holds no test that could be built"
        record "$config: tests" 1
    fi
    awk -v c="$config" '{ n += $1 } END { printf "%s: %d s of CPU time; the slowest:\n", c, n }' "$times"
    sort -rn "$times" | head -n 10 | sed 's/^/    /'
}

echo "== lint"
lint format tools/check_format.sh
lint banned python3 tools/check_banned.py
lint layers python3 tools/check_layers.py
lint python python3 tools/check_python.py
lint docs python3 tools/check_docs.py
lint "the checks themselves" python3 tests/lint/test_lint.py
for config in $configs; do
    test_config "$config"
done

echo
if [ ${#failures[@]} -gt 0 ]; then
    echo "failed:"
    printf '  %s\n' "${failures[@]}"
fi
echo "$passed passed, ${#failures[@]} failed"
[ ${#failures[@]} -eq 0 ]
