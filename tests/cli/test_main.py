"""The program itself: errors that are nobody's fault, version, speed of --help."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version

import pytest

from nnfuzz.backend.runner import RunnerError
from nnfuzz.cli.main import run


@pytest.mark.parametrize("arguments", [["--help"], ["fuzz", "--help"]])
def test_help_answers_at_once_and_imports_nothing_heavy(arguments):
    code = (
        "import sys; sys.argv[1:] = sys.argv[1:]\n"
        "from nnfuzz.cli.main import application\n"
        "try: application()()\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'torch', 'onnx', 'z3', 'rich'} & set(sys.modules)"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert "nnfuzz fuzz" in done.stdout
    assert time.monotonic() - start < 10


def full_database():
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA max_page_count = 1")
    database.execute("CREATE TABLE t (x)")


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", [full_database, full_disk])
def test_a_full_disk_is_no_fault_of_nnfuzz(fails, capsys):
    with pytest.raises(SystemExit) as end:
        run(fails)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: the disk is full: free some space")


def test_a_missing_device_is_told_without_the_name_of_a_class(capsys):
    def fails():
        raise RunnerError("backend toy: nnfuzz.backend.contract.BackendUnavailable: no device here")

    with pytest.raises(SystemExit) as end:
        run(fails)
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: backend toy: no device here\n"


def test_the_version_and_the_package_as_a_program():
    command = [sys.executable, "-m", "nnfuzz", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"nnfuzz {version('nnfuzz')}\n"
