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

# measure NAME COMMAND...: a target that is missed does not keep the others from being measured.
measure()
{
    [ -z "$names" ] || case " $names " in *" $1 "*) ;; *) return 0 ;; esac
    printf '\n== %s\n' "$1"
    name=$1
    shift
    "$@" || missed="$missed $name"
}

names=$*
missed=
for bench in "$ROOT"/build/bench/bench_*; do
    measure "$(basename "$bench" | sed 's/^bench_//')" "$bench"
done
measure python /usr/bin/python3 "$ROOT/tests/bench/bench_python.py"
measure jvm /usr/bin/python3 "$ROOT/tests/bench/bench_jvm.py"
measure node /usr/bin/python3 "$ROOT/tests/bench/bench_node.py"
measure daemon /usr/bin/python3 "$ROOT/tests/bench/bench_overhead.py" daemon
measure perf /usr/bin/python3 "$ROOT/tests/bench/bench_overhead.py" perf
[ -z "$missed" ] || { printf '\ntargets missed, or not measured:%s\n' "$missed"; exit 1; }
