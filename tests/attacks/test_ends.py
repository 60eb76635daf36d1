"""How commands end where the system refuses: streams that are closed or full, killed processes."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnfuzz.base.files import atomic_folder, write_atomically

NNFUZZ = [sys.executable, "-m", "nnfuzz"]


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs `nnfuzz LINE` under a shell, which closes and redirects streams."""
    command = f"{sys.executable} -m nnfuzz {line}"
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("settings >&-", 0),
        ("settings 2>&-", 0),
        ("show nothing 2>&-", 2),
        ("show nothing >&- 2>&-", 2),
        ("show nothing 2>/dev/full", 2),
        ("settings >/dev/full", 2),
        ("settings >/dev/full 2>&1", 2),
    ],
)
def test_streams_that_are_closed_or_full_are_no_fault(line, code, tmp_path):
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) <= 1, done.stderr


@pytest.mark.parametrize("option", ["--tests", "--seed"])
def test_a_number_of_forty_digits_is_refused(option, tmp_path):
    done = shell(f"fuzz -b onnxruntime {option} {'1' * 40} --out here", tmp_path)
    assert done.returncode == 2 and "with at most 15 digits" in done.stderr, done.stderr
    assert not (tmp_path / "here").exists()


def child_of(pid: int) -> int:
    """The one child of a process, once there is one."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + 30
    while not (children := file.read_text().split()) and time.monotonic() < end:
        time.sleep(0.01)
    return int(children[0])


def test_a_command_whose_process_is_killed_is_one_line_and_no_answer(tmp_path):
    """As the system does for want of memory: exit code 1 would mean that a finding reproduces."""
    os.mkfifo(tmp_path / "model.onnx")
    command = [*NNFUZZ, "show", "model.onnx"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        os.kill(child_of(process.pid), signal.SIGKILL)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 3
    assert shown.startswith("error: nnfuzz show: its process was killed") and shown.count("\n") == 1


def family(token: str) -> set[int]:
    """The processes that have a variable of this value in their environment."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (place / "environ").read_bytes():
                found.add(int(place.name))
    return found


SLEEPER = """
import time
from pathlib import Path

from nnfuzz.backends.onnxruntime import OnnxRuntime


class Sleeper(OnnxRuntime):
    name = "sleeper"

    def load(self, model):
        if b"Mul" in model:  # earlier questions than those of habits have none
            Path("FILE").touch()
            time.sleep(600)
        return super().load(model)
"""


@pytest.fixture
def learning(tmp_path):
    """A campaign that waits for its first model, and what all of its processes have in their
    environment."""
    token, begun = f"ENDS={os.getpid()}-{tmp_path}", tmp_path / "begun"
    (tmp_path / "sleeper.py").write_text(SLEEPER.replace("FILE", str(begun)))
    command = [*NNFUZZ, "fuzz", "--plugin", "sleeper.py", "-b", "sleeper", "--out", "campaign"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "ENDS": token.partition("=")[2]},
    )  # fmt: skip
    with process:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield process, token
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_campaign_that_learns_habits_with_its_children(learning, number):
    process, token = learning
    begun = time.monotonic()
    process.send_signal(number)
    shown, _ = process.communicate(timeout=60)
    assert time.monotonic() - begun < 5.0 and process.returncode == 130, shown
    assert "Traceback" not in shown
    end = time.monotonic() + 10
    while family(token) and time.monotonic() < end:
        time.sleep(0.1)
    assert not family(token)


def test_ctrl_c_before_the_first_command_runs_shows_no_traceback():
    """Python itself is ended by it until a command answers it."""
    script = "import os, signal, nnfuzz.__main__; os.kill(os.getpid(), signal.SIGINT); print('on')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_while_a_class_is_made_ends_a_command(tmp_path):
    """Python 3.11 wraps it in another error there."""
    raises = "lambda *_: exec('raise KeyboardInterrupt')"
    made = f"type('B', (), {{'a': type('A', (), {{'__set_name__': {raises}}})()}})\n"
    (tmp_path / "plugin.py").write_text(made)
    done = shell("backends --plugin plugin.py", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_full_disk_keeps_no_draft_of_a_file(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "summary.json", b"{}")
    assert not [*tmp_path.iterdir()]


def test_files_have_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "summary.json", b"{}")
        with atomic_folder(tmp_path / "finding") as made:
            (made / "model.onnx").write_bytes(b"")
    finally:
        os.umask(before)
    assert not any(path.stat().st_mode & 0o077 for path in tmp_path.rglob("*"))
