"""The program itself: errors that are nobody's fault, version, speed of --help."""

from __future__ import annotations

import errno
import re
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version

import pytest

from nnfuzz.backend.runner import RunnerError
from nnfuzz.cli.main import run
from tests.command import nnfuzz


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


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["repord"], "No such command 'repord'. Did you mean 'report'? (see PROGRAM --help)"),
        (["--frob"], "No such option: --frob (see PROGRAM --help)"),
        (["report", "--frob"], "No such option: --frob (see PROGRAM report --help)"),
        (["bugs", "frob"], "No such command 'frob' (see PROGRAM bugs --help)"),
        (["report"], "Missing argument 'campaign' (see PROGRAM report --help)"),
        (["fuzz", "--out"], "Option '--out' requires an argument"),
        (["fuzz", "--tests", "a\nb"], "Invalid value for '--tests': 'a\\nb' is not a whole number"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_fix(words, line):
    done = nnfuzz(*words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout
    program = re.search(r"\(see (.*?)(?: report| bugs| fuzz)? --help\)$", done.stderr.strip())
    shown = done.stderr.replace(program[1], "PROGRAM") if program else done.stderr
    assert shown.startswith(f"error: {line}")


@pytest.mark.parametrize("words", [[], ["bugs"]])
def test_a_group_without_a_command_shows_its_help(words):
    done = nnfuzz(*words)
    assert done.returncode == 2 and done.stderr.startswith("Usage: ")


def full_database():
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA max_page_count = 1")
    database.execute("CREATE TABLE t (x)")


def database_that_may_not_grow():
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    raise error


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", [full_database, database_that_may_not_grow, full_disk])
def test_a_full_disk_is_no_fault_of_nnfuzz(fails, capsys):
    with pytest.raises(SystemExit) as end:
        run(fails)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: the disk is full or fails: free space")


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
