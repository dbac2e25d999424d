"""Runs the tests of this folder with real packages, by the interpreter that runs this.

    run.py BUILD_DIR [TEST...]
    run.py BUILD_DIR --truth MODE    ../truth/check_python.py instead
    run.py BUILD_DIR --attach PYTHON...    check_attach.py instead

The packages of requirements.txt are installed once into a venv in the build folder. Without a registry the
tests are skipped (exit code 77) with the reason; where CI=true that is a failure.
"""
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def venv_python(build):
    """The interpreter of the venv with the packages in it; raises CalledProcessError."""
    wanted = (HERE / "requirements.txt").read_bytes()
    key = hashlib.sha256(wanted + sys.version.encode()).hexdigest()[:12]
    folder = build / "venv" / f"{sys.version_info[0]}.{sys.version_info[1]}-{key}"
    python, stamp = folder / "bin" / "python3", folder / "complete"
    if not stamp.exists():
        run = dict(check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], **run)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r",
                        str(HERE / "requirements.txt")], **run)
        stamp.touch()
    return python


def environment(build):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", DOVETAIL_BAGGAGE="tenant, plan")
    path = build / "lib/python", HERE, HERE.parent.parent / "tests/python"
    env["PYTHONPATH"] = os.pathsep.join(map(str, path))
    env["LD_LIBRARY_PATH"] = str(build / "tests/python/fake")
    return env


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    try:
        python = venv_python(build)
    except subprocess.CalledProcessError as e:
        print(f"the packages cannot be installed: {(e.output or '').strip().splitlines()[-1:]}")
        return 1 if os.environ.get("CI") == "true" else 77
    if sys.argv[2:3] == ["--truth"]:
        check = HERE.parent / "truth/check_python.py"
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", DOVETAIL_BUILD=str(build))
        return subprocess.run([str(python), str(check), sys.argv[3], str(python)], env=env).returncode
    if sys.argv[2:3] == ["--attach"]:
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, str(HERE / "check_attach.py"), str(build), str(python), *sys.argv[3:]], env=env).returncode
    tests = sys.argv[2:] or sorted(p.name for p in HERE.glob("test_*.py"))
    env = environment(build)
    failed = [t for t in tests if subprocess.run([str(python), str(HERE / t)], env=env).returncode]
    print(f"{sys.version.split()[0]}: {len(tests) - len(failed)} of {len(tests)} files passed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
