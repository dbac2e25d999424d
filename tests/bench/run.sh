#!/bin/sh
# Builds and runs all benchmarks, one after the other, and prints their figures and ratios. Best on an idle machine.
#   sh tests/bench/run.sh [NAME...]     NAME as in bench_NAME
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
. "$ROOT/integration/setup.sh"
# shellcheck disable=SC2086 # a list of words
setup_packages $BUILD_PACKAGES linux-perf
setup_build "$ROOT/build"
export DOVETAIL_BUILD="$ROOT/build"

wanted()
{
    [ -z "$names" ] || case " $names " in *" $1 "*) ;; *) return 1 ;; esac
    printf '\n== %s\n' "$1"
}

names=$*
for bench in "$ROOT"/build/bench/bench_*; do
    name=$(basename "$bench" | sed 's/^bench_//')
    wanted "$name" || continue
    "$bench"
done
! wanted python || /usr/bin/python3 "$ROOT/tests/bench/bench_python.py"
! wanted jvm || /usr/bin/python3 "$ROOT/tests/bench/bench_jvm.py"
! wanted daemon || /usr/bin/python3 "$ROOT/tests/bench/bench_overhead.py" daemon
! wanted perf || /usr/bin/python3 "$ROOT/tests/bench/bench_overhead.py" perf
