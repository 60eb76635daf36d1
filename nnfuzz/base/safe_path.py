"""Keeps Python from importing the files of the working directory.

`python -m nnfuzz` puts the working directory first on sys.path, and `python FILE` the folder of the
file: a json.py there would run in place of Python's own. Imports nothing but `os` and `sys`, which
Python has loaded by then: whatever else it imported could already come from there.
"""

from __future__ import annotations

import os
import sys


def safe_environment(**more: str) -> dict[str, str]:
    """The environment variables for every process that nnfuzz starts: those of this process, with
    which a Python interpreter, and what it starts in turn, finds no module in the working directory
    or beside its script. PYTHONPATH counts as before.

    more: further variables, which replace those of this process.
    """
    return {**os.environ, "PYTHONSAFEPATH": "1", **more}


def leave_working_directory() -> None:
    """Removes the working directory from sys.path while `python -m nnfuzz` starts.

    It stays where nnfuzz itself lies there, as in a checkout, and in programs that import nnfuzz.
    """
    if sys.argv[:1] != ["-m"] or sys.flags.safe_path:  # "-m": Python looks for the module
        return
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    if module.partition(".")[0] == "nnfuzz" and os.path.realpath(sys.path[0]) != own:
        del sys.path[0]
