"""The npm package as node-gyp builds it for `npm install` from its folder, without CMake: it profiles as the other does.

    gyp.py BUILD_DIR NODE_INCLUDE     the folder with node_api.h, .../include/node
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
os.environ["DOVETAIL_BUILD"] = str(BUILD)
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from check import daemon  # noqa: E402
from dovetail_store import folded, ledgers, must, traces  # noqa: E402
from mix_check import wrong_and_unmarked  # noqa: E402


def install(place):
    """The package's folder, in a copy of the sources: node-gyp builds where it finds them."""
    for folder in ("proto", "shims/core", "shims/node"):
        shutil.copytree(HERE.parents[1] / folder, place / folder, ignore=shutil.ignore_patterns("build"))
    (place / "app").mkdir()
    (place / "app" / "package.json").write_text('{"private": true}\n')
    env = {**os.environ, "npm_config_nodedir": str(pathlib.Path(sys.argv[2]).parents[1]), "npm_config_jobs": "max"}
    subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--foreground-scripts", str(place / "shims/node")],
                   cwd=place / "app", env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return place / "app" / "node_modules" / "dovetail"


def main():
    if not shutil.which("npm"):
        print("SKIPPED: npm is not there")
        return 1 if os.environ.get("CI") == "true" else 77
    with tempfile.TemporaryDirectory(prefix="gyp-", dir=BUILD) as folder:
        place = pathlib.Path(folder)
        try:
            package = install(place)
        except subprocess.CalledProcessError as e:
            print(e.output)
            return 1
        with daemon(f"{place}/store", f"{place}/control", "--hz", "999") as env:
            subprocess.run(["node", "--require", str(package), HERE / "mix.js", "own", "2"], env=env, check=True,
                           stdout=subprocess.DEVNULL)
        return 0 if attributes(f"{place}/store") else 1


def attributes(store):
    wrong = total = 0
    for t in traces(store):
        rows = folded(store, t["trace_id"])
        wrong += wrong_and_unmarked(rows, f"work_{int(t['trace_id'], 16) - 1}", str)[0]
        total += sum(weight for _, weight in rows)
    led = ledgers(store)
    good = must(wrong == 0 and total > 200, f"built by node-gyp: {wrong} of {total} samples in a wrong trace")
    return good & must(led["no_stack"] <= 0.01 * led["joined"], f"{led['no_stack']} of {led['joined']} without a managed stack")


if __name__ == "__main__":
    sys.exit(main())
