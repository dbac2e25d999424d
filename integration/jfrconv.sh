#!/bin/sh
# async-profiler's jfrconv reads what we write: each sample once, in one chunk and in a segment of many.
# Usage: jfrconv.sh TEST_CHUNK; exit 77 (skipped) without a JDK, Maven or a registry it can reach.
set -eu
test_chunk=$1
version=4.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
    echo "skipped: needs java and mvn" >&2
    exit 77
fi
if ! mvn -q -B dependency:copy -Dartifact=tools.profiler:jfr-converter:$version "-DoutputDirectory=$work" >"$work/mvn.log" 2>&1; then
    echo "skipped: tools.profiler:jfr-converter:$version cannot be had: $(grep -m1 ERROR "$work/mvn.log")" >&2
    exit 77
fi
for chunks in 1 100; do
    "$test_chunk" --segment "$work/s.jfr" $chunks >"$work/expected"
    java -jar "$work/jfr-converter-$version.jar" -o collapsed "$work/s.jfr" "$work/folded"
    wrote=$(wc -l <"$work/expected") read=$(awk '{ n += $NF } END { print n }' "$work/folded")
    echo "$chunks chunks: $wrote samples written, jfrconv read $read"
    [ "$wrote" = "$read" ]
done
