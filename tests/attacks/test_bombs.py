"""Small models that mean too much, large archives, numbers and paths out of range: one line, and
exit code 2.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from nnfuzz.base import untrusted
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_model, read_npz
from nnfuzz.cli.limits import allowance
from tests.attacks import bombs, samples
from tests.command import nnfuzz

MANY = 40


def started(*arguments, program=("-m", "nnfuzz"), **more):
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def one_line(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert done.returncode == 2 and len(lines) == 1, done
    return lines[0].removeprefix("error: ")


def limited(block, name="show"):
    """A program that is limited as a command is, and then does something."""
    lines = (
        "import os, signal, sys, time",
        "from nnfuzz.cli import limits",
        "limits.MEMORY_BYTES = 1 << 30",
        "from nnfuzz.cli.main import run",
        f"limits.limit_command(['{name}'])",
        block,
    )
    return started(program=("-c", "\n".join(lines)))


def as_program(*arguments):
    words = list(map(str, arguments))
    return f"from nnfuzz.cli.main import application; run(lambda: application()({words}))"


# -- what models mean -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["concat", *(pytest.param(n, marks=pytest.mark.slow) for n in ("constant_of_shape", "range"))],
)
def test_a_tensor_larger_than_memory_ends_no_command(name, tmp_path):
    """It is shown without what inference cannot hold."""
    (tmp_path / "m.onnx").write_bytes(bombs.BOMBS[name](MANY).SerializeToString())
    shown = limited(as_program("show", tmp_path / "m.onnx"))
    assert shown.returncode == 0 and "output y: i64[" in shown.stdout, shown


def test_tensors_beside_a_model_have_a_limit_in_all(tmp_path):
    """Twelve, in a file that is sparse: 24 GB that take no place on the disk."""
    with open(tmp_path / "data.bin", "wb") as file:
        file.truncate(2**31 - 1)
    weights = [TensorProto(name=f"w{i}", data_type=1, dims=[2**29 - 1]) for i in range(12)]
    for weight in weights:
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="data.bin")
    model = bombs.model([bombs.node("Add", "x", "w0")], weights)
    onnx.save(model, tmp_path / "model.onnx")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unreadable, match="more than 2,147,483,648 bytes"):
        read_model(tmp_path / "model.onnx")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # 256 MB
    assert allowance([str(tmp_path / "model.onnx")]) < allowance([]) + (1 << 20)


# -- the child of a command -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("with limits.computing(0.3):\n    while True: pass", "too long"),
        ("run(lambda: bytearray(1 << 33))", "not enough memory"),
    ],
)
def test_what_a_file_does_to_a_command_is_told_in_one_line(block, told):
    done = limited(block)
    assert told in one_line(done) and not done.stdout


def test_a_command_ends_as_its_child_does():
    assert limited("print('x'); sys.exit(4)").returncode == 4
    assert limited("print('x')").stdout == "x\n"
    assert limited("os.kill(os.getpid(), signal.SIGHUP)").returncode == -signal.SIGHUP
    assert limited("print(os.getppid() == int(open('/proc/self/stat').read().split()[3]))").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_child_gets_the_signals_of_the_command(number):
    block = (
        "from nnfuzz.cli import limits; import os, time; limits.limit_command(['show']); "
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", block], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        child = int(program.stdout.readline())
        assert child != program.pid
        program.send_signal(number)
        assert program.wait(10) in (-number, 1)
    for _ in range(50):
        if not os.path.exists(f"/proc/{child}"):
            return
        time.sleep(0.1)
    pytest.fail("the child lives on")


# -- archives, numbers, paths ---------------------------------------------------------------------


def test_arrays_of_an_archive_have_a_limit_in_number(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MAX_MEMBERS", 9)
    np.savez(tmp_path / "a.npz", **{f"x{i}": np.zeros(2) for i in range(9)})
    assert len(read_npz(tmp_path / "a.npz")) == 9
    np.savez(tmp_path / "a.npz", **{f"x{i}": np.zeros(2) for i in range(10)})
    with pytest.raises(Unreadable, match="more than 9 arrays"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("options", [{"timeout": 1e308}, {"memory": 1e300}, {"jobs": 10**18}])
def test_an_option_of_a_finding_is_a_number_that_can_be_meant(options, tmp_path):
    folder = samples.finding_folder(tmp_path / "finding")
    document = json.loads((folder / "finding.json").read_text())
    document["backend"]["options"] = options
    (folder / "finding.json").write_text(json.dumps(document))
    assert "must be more than 0, and at most" in one_line(nnfuzz("replay", folder))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("meta SET value = '[{\"started\": 1e308}]' WHERE key = 'sessions'", 0),
        ("findings SET found_at = -9e999", 2),
    ],
)
def test_times_that_no_clock_shows(change, code, tmp_path):
    folder = samples.campaign(tmp_path / "campaign")
    with sqlite3.connect(folder / "campaign.sqlite") as db:
        db.execute(f"UPDATE {change}")
    db.close()
    done = nnfuzz("report", folder)
    told = done.stdout + done.stderr
    assert done.returncode == code and "Traceback" not in told
    assert ("damaged" if code else "missing from the page: the sessions") in told


@pytest.mark.parametrize(
    "words",
    [
        ("show", "LONG"),
        ("replay", "LONG"),
        ("merge", "CAMPAIGN", "--out", "LONG"),
        ("fuzz", "-b", "onnxruntime", "--tests", "1", "--out", "LONG"),
    ],
)
def test_a_path_that_the_system_refuses(words, tmp_path):
    (tmp_path / "m.onnx").write_bytes(bombs.long(1).SerializeToString())
    places = {"LONG": "x" * 300, "MODEL": tmp_path / "m.onnx"}
    if "CAMPAIGN" in words:
        places["CAMPAIGN"] = samples.campaign(tmp_path / "c")
    done = nnfuzz(*(places.get(word, word) for word in words), cwd=tmp_path)
    assert "File name too long" in one_line(done) and len(done.stderr) < 600
