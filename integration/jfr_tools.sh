#!/bin/sh
# The JDK's own tools read what we write: `jfr summary` and `jfr print` of every JDK under /usr/lib/jvm, on one chunk and
# on a segment of 1,000 chunks with stacks of their own (readers carry constant pools over between adjacent chunks).
# Usage: jfr_tools.sh TEST_CHUNK; exit 77 (skipped) if no JDK is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
test_chunk=$1
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools=
for jfr in /usr/lib/jvm/*/bin/jfr; do
    [ -x "$jfr" ] && [ ! -L "$(dirname "$(dirname "$jfr")")" ] && tools="$tools $jfr"
done
if [ -z "$tools" ]; then
    echo "skipped: no JDK with bin/jfr under /usr/lib/jvm" >&2
    exit 77
fi

for chunks in 1 1000; do
    "$test_chunk" --segment "$work/s.jfr" $chunks >"$work/expected"
    for jfr in $tools; do
        echo "$jfr, $chunks chunks:"
        "$jfr" summary "$work/s.jfr" >"$work/summary"
        grep -q "Chunks: $chunks\$" "$work/summary"
        "$jfr" print --stack-depth 64 --json --events jdk.ExecutionSample "$work/s.jfr" >"$work/samples.json"
        python3 "$here/jfr_tools.py" "$work/expected" "$work/samples.json"
        # All events in text form: a type the printer cannot show would stop it.
        "$jfr" print "$work/s.jfr" >"$work/text"
        [ "$(grep -c '^dovetail.Trace {' "$work/text")" -eq $chunks ]
        grep -q 'orders.fn_1_14() *line: 24' "$work/text"
    done
done
