"""Loads dovetail in every Python that `dovetail run` starts: this folder is first on PYTHONPATH, for children too.

The application must not notice: this folder leaves sys.path (not the environment, which children inherit), the package is
not made importable from anywhere new but is loaded, and a sitecustomize that was there before still runs.
"""
import os
import sys


def _load(folder):
    library = os.path.dirname(os.path.dirname(folder))
    sys.path.insert(0, library)
    try:
        import dovetail  # noqa: F401
    except Exception:
        pass  # never the application's problem
    finally:
        if library in sys.path:
            sys.path.remove(library)


def _chain(folder):
    """Runs the sitecustomize that this one hides, if there is one."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != folder]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


_folder = os.path.dirname(os.path.abspath(__file__))
_load(_folder)
_chain(_folder)
