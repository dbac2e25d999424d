"""Stacks of HostileMix under the daemon, held against what is known of it and against async-profiler's of a second run.

    check_stacks.py JAVA_HOME

Claims: nearly every sample has a full Java stack to the thread's entry, the rest a reason; no sample shows another thread's
work; each method's lines are its own; methods' shares of a thread's time are async-profiler's. Exit 77 (skipped) where async-profiler cannot be had from Maven Central, 1 for that where CI=true.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "truth"))
from dovetail_store import BUILD, LONG, SURE, dovetail, ledgers, must, profile, told, traces  # noqa: E402

VERSION = "4.6"
MS = 4000 if LONG else 1000
LEAST_FULL = 0.985
OTHER_RUN = 0.05
KINDS = "recursion interpreter allocation intrinsics crypto nativeCode clock lambdas locks exceptions dispatch".split()
INTERPRETED = "-XX:CompileCommand=exclude,HostileMix::interpret*"


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **more).stdout


def async_profiler(work):
    """The library's path; None if it cannot be had."""
    try:
        run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact=tools.profiler:async-profiler:{VERSION}",
            f"-DoutputDirectory={work}")
        with zipfile.ZipFile(work / f"async-profiler-{VERSION}.jar") as jar:
            return pathlib.Path(jar.extract("linux-x64/libasyncProfiler.so", work))
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"SKIPPED: async-profiler {VERSION} cannot be had: {str(getattr(e, 'output', e)).strip().splitlines()[-1:]}")
        return None


# ---- stacks: [(frames leaf first, samples)], a frame is (kind, name, line) ----

def stacks_of(store, trace):
    tree = json.loads(dovetail("flame", trace, "--store", store, "-f", "json", "--full"))
    nodes = tree["nodes"]
    for node in nodes:
        if not node["self_samples"]:
            continue
        frames, at = [], node
        while at["parent"] >= 0:
            if at["kind"] not in ("root", "service", "thread", "scope"):
                frames.append((at["kind"], at["name"], at.get("line", 0)))
            at = nodes[at["parent"]]
        yield frames, node["self_samples"]


def stable(name):
    return re.sub(r"[.+/]0x[0-9a-f]+", "", name.replace("/", "."))


def collapsed(path, kind):
    """async-profiler's stacks of one thread, as above but without lines."""
    for row in path.read_text().splitlines():
        stack, count = row.rsplit(" ", 1)
        frames = stack.split(";")
        if frames[0].startswith(f"[mix-{kind} "):
            yield [("?", stable(f), 0) for f in reversed(frames[1:])], int(count)


JAVA = re.compile(r"^(HostileMix|java\.|jdk\.|sun\.|com\.sun\.|io\.dovetail)[\w.$]*\.[\w$<>]+$")


NATIVE = {"java.lang.System.nanoTime", "java.lang.System.currentTimeMillis"}


def java_leaf(frames):
    """The method that runs or called into what runs; a native one is there or not by how it was compiled."""
    return next((name for _, name, _ in frames if JAVA.match(name) and name not in NATIVE), None)


def is_full(frames):
    return bool(frames) and frames[-1][1] == "java.lang.Thread.run"


# ---- claims ----

def check_full(found):
    total = full = 0
    reasons = collections.Counter()
    for kind in KINDS:
        n = f = 0
        for frames, count in found[kind]:
            gone = [name for _, name, _ in frames if name.startswith("[no stack")]
            n += count
            f += count * (is_full(frames) and not gone)
            if gone or not is_full(frames):
                reasons[gone[0] if gone else "cut at " + (frames[-1][1] if frames else "nothing")] += count
        print(f"      {kind}: {f} of {n} full ({100 * f / n:.2f}%)")
        total, full = total + n, full + f
    named = all(r.startswith("[no stack: ") for r in reasons)
    print("      " + (", ".join(f"{n} {r}" for r, n in reasons.most_common()) or "none without"))
    return must(full >= LEAST_FULL * total and named, f"{full} of {total} samples ({100 * full / total:.2f}%) have a full Java"
                " stack, the others a reason")


def check_own_work(found):
    wrong = bare = total = 0
    for kind in KINDS:
        others = {f"HostileMix.{k}" for k in KINDS if k != kind}
        for frames, count in found[kind]:
            names = {name for _, name, _ in frames}
            total += count
            wrong += count * bool(names & others)
            bare += count * (is_full(frames) and f"HostileMix.{kind}" not in names and "HostileMix.work" not in names)
    return must(wrong == 0 and bare <= 0.005 * total, f"{wrong} of {total} samples show another thread's work; {bare} full ones"
                " were outside work()")


def line_tables(javap, classes):
    """{method: its lines}, overloads and lambdas included."""
    tables = collections.defaultdict(set)
    for path in classes.glob("HostileMix*.class"):
        name, method = path.stem, None
        for row in run(javap, "-c", "-l", "-p", "-cp", classes, name).splitlines():
            head = re.match(r"  \S.*?([\w$]+)\(.*\)", row)
            if head:
                method = "<init>" if head[1] == name else head[1]
            elif row.startswith("  static {}"):
                method = "<clinit>"
            line = re.match(r"\s+line (\d+): \d+$", row)
            if line:
                tables[f"{name}.{method}"].add(int(line[1]))
    return tables


def check_lines(found, tables):
    checked = wrong = unknown = 0
    for kind in KINDS:
        for frames, count in found[kind]:
            for how, name, line in frames:
                if how == "managed" and name in tables:
                    checked += count
                    unknown += count * (line == 0)
                    if line and line not in tables[name]:
                        wrong += count
                        print(f"      {name}:{line} has no such line")
    good = must(checked > 1000 and wrong == 0, f"{wrong} of {checked} frames of the program are at a line that is not the method's")
    return good & must(unknown <= 0.01 * checked, f"{unknown} of them are without a line")


def check_shares(found, other):
    """Shares of methods in a thread's time differ by chance, and by what a second run compiles otherwise."""
    compared, far = 0, []
    for kind in KINDS:
        ours, theirs = collections.Counter(), collections.Counter()
        for rows, counter in ((found[kind], ours), (other[kind], theirs)):
            for frames, count in rows:
                counter[java_leaf(frames)] += count
        n, m = sum(ours.values()), sum(theirs.values())
        for method in set(ours) | set(theirs):
            p, q = ours[method] / n, theirs[method] / m
            pooled = (ours[method] + theirs[method]) / (n + m)
            if pooled < 0.02 or method is None:
                continue
            sigma = (pooled * (1 - pooled) * (1 / n + 1 / m)) ** 0.5
            compared += 1
            if abs(p - q) > SURE * sigma + OTHER_RUN:
                far.append(f"{kind} {method}: {100 * p:.1f}% and {100 * q:.1f}% (sigma {100 * sigma:.1f})")
    for text in far:
        print("      " + text)
    return must(len(far) <= compared // 8, f"{compared} methods' shares: {len(far)} differ from async-profiler's by more than"
                " chance and the run")


def share_full(rows_by_kind):
    total = sum(n for kind in KINDS for _, n in rows_by_kind[kind])
    return sum(n for kind in KINDS for frames, n in rows_by_kind[kind] if is_full(frames)) / total, total


def main():
    home = pathlib.Path(sys.argv[1])
    work = pathlib.Path(tempfile.mkdtemp(prefix="stacks-", dir=BUILD))
    jar = pathlib.Path(BUILD) / "lib/java/dovetail.jar"
    run(home / "bin/javac", "-g:lines,source", "-cp", jar, "-d", work, HERE / "HostileMix.java")
    library = async_profiler(work)
    theirs = work / "async.collapsed"
    program = ["-XX:CompileCommand=quiet", INTERPRETED, "-cp", f"{work}:{jar}", "HostileMix", str(MS)]
    _, store = profile(str(home / "bin/java"), *program, hz=999)
    if library: # by itself: each of two samplers would sample the other's handler
        run(home / "bin/java", f"-agentpath:{library}=start,event=ctimer,interval=1001001ns,threads,collapsed,file={theirs}",
            *program, env={**os.environ, "DOVETAIL": "off"})
    by_name = {t["root_name"]: t["trace_id"] for t in traces(store)}
    found = {kind: list(stacks_of(store, by_name[kind])) for kind in KINDS}
    led = ledgers(store)
    good = check_full(found) & check_own_work(found) & check_lines(found, line_tables(home / "bin/javap", work))
    good &= must(led["samples"] == told(led), f"ledger: {led['samples']} samples, {led['joined']} joined, {led['no_stack']}"
                 " without a Java stack")
    if library:
        other = {kind: list(collapsed(theirs, kind)) for kind in KINDS}
        (ours_full, n), (theirs_full, m) = share_full(found), share_full(other)
        good &= must(ours_full >= theirs_full - 0.003, f"full stacks: {100 * ours_full:.2f}% of {n}; async-profiler {VERSION}:"
                     f" {100 * theirs_full:.2f}% of {m}")
        good &= check_shares(found, other)
    if not good:
        print(f"kept for a look: {work} {store}")
        return 1
    shutil.rmtree(work)
    shutil.rmtree(store)
    return 0 if library else 1 if os.environ.get("CI") == "true" else 77


if __name__ == "__main__":
    sys.exit(main())
