"""A class that is redefined while it is profiled: every frame has a line of the version that ran.

    check_redefined.py BUILD_DIR JDK_HOME
"""
import json
import os
import pathlib
import shutil
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from dovetail_store import BUILD, LONG, dovetail, must, profile, traces  # noqa: E402

VERSIONS = 3


def write_versions(folder):
    """V0 to V3: the same but for their lines; V<k>'s begin at 100 k."""
    for k in range(VERSIONS + 1):
        body = ["public final class V%d {" % k, "    static long work(int n) {", "        long x = 0;",
                "        for (int i = 0; i < n; i++)", "            x += i * i % 7 ^ x >>> 3;", "        return x;", "    }", "}"]
        (folder / f"V{k}.java").write_text("\n" * (100 * k) + "\n".join(body) + "\n")


def main():
    jdk = sys.argv[2]
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"redefined-{os.path.basename(jdk)}"
    folder.mkdir(parents=True, exist_ok=True)
    write_versions(folder)
    class_path = jars(BUILD)
    compile_java(jdk, folder, class_path, HERE / "Redefined.java", *(folder / f"V{k}.java" for k in range(VERSIONS + 1)))
    with zipfile.ZipFile(folder / "agent.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Premain-Class: Redefined\nCan-Redefine-Classes: true\n")
    out, store = profile(f"{jdk}/bin/java", "-Xmx128m", f"-javaagent:{folder}/agent.jar", "-XX:CompileCommand=quiet",
                         "-XX:CompileCommand=dontinline,V0.work", "-cp", f"{class_path}{os.pathsep}{folder}", "Redefined",
                         "30" if LONG else "3", hz=999)
    good = must({int(t["trace_id"], 16) for t in traces(store)} == set(range(1, VERSIONS + 1)), "a trace for each version")
    right, wrong = 0, []
    for k in range(1, VERSIONS + 1):
        for node in json.loads(dovetail("flame", "%032x" % k, "--store", store, "-f", "json", "--full"))["nodes"]:
            if node["name"] != "V0.work":
                continue
            is_right = 100 * k < node["line"] <= 100 * k + 8
            right += node["self_samples"] if is_right else 0
            wrong += [] if is_right else [(k, node["line"])]
    good &= must(not wrong and right > 50, f"{right} frames of the version that ran, {len(wrong)} of another: {wrong[:3]}"
                 f" ({out.split()[-1]} redefinitions)")
    if good:
        shutil.rmtree(store)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
