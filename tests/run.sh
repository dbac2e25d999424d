#!/bin/sh
# Sets up, builds and runs the tests.  sh tests/run.sh [--long] [-R REGEX]
#   --long   also the soaks, the full truth tests, one minute of fuzzing for each decoder, half an hour of stress for each JDK
#   -R REGEX only tests whose name matches (as ctest -R)
# Exit 0 only if everything passed. With CI=true a skipped test is a failure.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
. "$ROOT/integration/setup.sh"

long=
filter=
while [ $# -gt 0 ]; do
    case $1 in
    --long) long=1 ;;
    -R) filter=$2 && shift ;;
    *) echo "usage: sh tests/run.sh [--long] [-R REGEX]" >&2 && exit 2 ;;
    esac
    shift
done

node_packages=$(setup_node_packages)
command -v npm >/dev/null 2>&1 || node_packages="$node_packages npm"
# shellcheck disable=SC2086 # lists of words
setup_packages $BUILD_PACKAGES ${long:+clang libclang-rt-dev} python3-venv python3-pip python3-aiohttp maven $node_packages \
    "openjdk-17-jdk-headless|openjdk-21-jdk-headless|openjdk-25-jdk-headless"

run_ctest() # DIR NAME [CTEST OPTION...]
{
    dir=$1 name=$2
    shift 2
    # One at a time: the truth tests need the machine's cores for themselves.
    DOVETAIL_LONG=$long ctest --test-dir "$dir" --output-on-failure --no-tests=error "$@" \
        >"$dir/ctest.log" 2>&1 || failed="$failed $name"
    cat "$dir/ctest.log"
    if [ "${CI:-}" = true ] && grep -q '\*\*\*Skipped' "$dir/ctest.log"; then
        echo "tests: a skipped test is a failure where CI=true:" >&2
        grep '\*\*\*Skipped' "$dir/ctest.log" >&2
        failed="$failed $name-skipped"
    fi
}

failed=
if [ -n "$filter" ]; then
    setup_build "$ROOT/build"
    run_ctest "$ROOT/build" build -R "$filter"
else
    # Sanitizers first, the plain build last, so that its summary closes the output. The Python shim with
    # AddressSanitizer on one interpreter: on each it would take longer than all the rest.
    pythons=/usr/bin/python3
    [ -z "$long" ] || pythons=
    setup_build "$ROOT/build-asan" -DDOVETAIL_ASAN=ON -DCMAKE_BUILD_TYPE=Debug "-DDOVETAIL_PYTHONS=$pythons"
    run_ctest "$ROOT/build-asan" asan -LE 'plain'
    setup_build "$ROOT/build-tsan" -DDOVETAIL_TSAN=ON -DDOVETAIL_PYTHON=OFF -DDOVETAIL_JVM=OFF -DDOVETAIL_NODE=OFF
    run_ctest "$ROOT/build-tsan" tsan -L 'threads'
    if [ -n "$long" ]; then
        setup_build "$ROOT/build-fuzz" -DDOVETAIL_FUZZ=ON -DDOVETAIL_PYTHON=OFF -DDOVETAIL_JVM=OFF -DDOVETAIL_NODE=OFF -DCMAKE_C_COMPILER=clang
        for fuzzer in "$ROOT"/build-fuzz/tests/fuzz_*; do
            corpus=$ROOT/tests/fuzz/corpus/$(basename "$fuzzer" | sed 's/^fuzz_//')
            grown=$ROOT/build-fuzz/corpus/$(basename "$fuzzer")
            mkdir -p "$grown"
            echo "fuzzing $(basename "$fuzzer") for a minute"
            # Without entropic: its bookkeeping costs more than the runs where hashes differ from run to run.
            (cd "$grown" && "$fuzzer" -max_total_time=60 -rss_limit_mb=1024 -verbosity=0 -entropic=0 \
                -print_final_stats=1 "$grown" "$corpus" 2>"$grown.log") ||
                failed="$failed $(basename "$fuzzer")"
            grep -E 'stat::number_of_executed_units|ERROR|SUMMARY' "$grown.log" || true
        done
    fi
    setup_build "$ROOT/build"
    run_ctest "$ROOT/build" build
    if [ -n "$long" ]; then
        DOVETAIL_LONG=1 python3 -B "$ROOT/integration/jvm/stress.py" "$ROOT/build" || failed="$failed jvm-stress"
    fi
fi

if [ -n "$failed" ]; then
    echo "tests: failed in:$failed" >&2
    exit 1
fi
