"""Runs the tests of this folder with real packages, on every major of Node.js.

    run.py BUILD_DIR CHECK [MAJOR...]     a check of check.py; all majors

The packages of package-lock.json, Node.js itself among them, are installed once into the build folder. Without a
registry the tests run on the machine's own node where they need no package, else they are skipped (exit code 77) with the
reason; where CI=true that is a failure.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MAJORS = ["18", "20", "22", "24"]


def packages(build):
    """The folder with node_modules in it; raises CalledProcessError."""
    wanted = (HERE / "package-lock.json").read_bytes()
    folder = build / "npm" / hashlib.sha256(wanted).hexdigest()[:12]
    stamp = folder / "complete"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)],
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        stamp.touch()
    return folder / "node_modules"


def nodes(modules):
    """{major: program}; the machine's own node for its major."""
    found = {}
    own = shutil.which("node")
    if own:
        version = subprocess.run([own, "--version"], capture_output=True, text=True).stdout
        found[version.lstrip("v").split(".")[0]] = own
    for major in MAJORS:
        program = modules / f"node{major}" / "bin" / "node"
        if program.exists():
            found.setdefault(major, str(program))
    return found


def main():
    build, check = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    try:
        modules = packages(build)
    except (subprocess.CalledProcessError, FileNotFoundError) as e:
        last = (getattr(e, "output", None) or str(e)).strip().splitlines()[-1:]
        print(f"the packages cannot be installed: {last}")
        return 1 if os.environ.get("CI") == "true" else 77
    env = dict(os.environ, NODE_PATH=str(modules), DOVETAIL_BUILD=str(build), PYTHONDONTWRITEBYTECODE="1")
    failed = []
    for major, program in sorted(nodes(modules).items()):
        if sys.argv[3:] and major not in sys.argv[3:]:
            continue
        rc = subprocess.run([sys.executable, str(HERE / "check.py"), check, program], env=env).returncode
        failed += [major] if rc else []
    print(f"{check}: " + (f"failed on {failed}" if failed else "good"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
