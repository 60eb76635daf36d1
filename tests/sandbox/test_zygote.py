"""kill -9 of the campaign leaves no process behind; Ctrl-C disturbs no worker."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnfuzz.sandbox.zygote import remove_tree

SERVICES = Path(__file__).parents[1] / "backend"
SCRIPT = """
import signal, sys
from hostile import Misbehave
from nnfuzz.sandbox.sandbox import Limits, Sandbox, wait
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
sandboxes = [Sandbox("hostile:make", limits=Limits(seconds=60)) for _ in range(2)]
idle, busy = sandboxes
for sandbox in sandboxes:
    sandbox.call(Misbehave("daemon"))
busy.submit(Misbehave(sys.argv[1]))
try:
    print(idle.server.scratch, busy.server.scratch, flush=True)
    wait(sandboxes)
except KeyboardInterrupt:
    assert wait(sandboxes, 0.3) == []
    for sandbox in sandboxes:
        sandbox.close()
    print("closed", flush=True)
"""


def family() -> set[int]:
    """Processes that carry the mark of the campaign in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"NNFUZZ_TEST_MARK=" + MARK in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


MARK = str(os.getpid()).encode()


@pytest.fixture
def campaign(request):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, request.param],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SERVICES), "NNFUZZ_TEST_MARK": MARK.decode()},
        start_new_session=True,
    )
    scratches = [Path(name) for name in process.stdout.readline().split()]
    time.sleep(0.2)
    yield process, scratches
    process.stdout.close()
    process.wait()


def wait_until_gone(seconds: float) -> set[int]:
    end = time.monotonic() + seconds
    while (left := family()) and time.monotonic() < end:
        time.sleep(0.02)
    return left


@pytest.mark.parametrize(
    "campaign", ["hang_holding_the_gil", "spin", "print_forever"], indirect=True
)
def test_kill_9_of_the_campaign_kills_all_descendants(campaign):
    process, scratches = campaign
    before = family()
    assert len(before) >= 7  # the campaign, two fork servers, two workers, two daemons
    process.kill()
    process.wait()
    assert wait_until_gone(5.0) == set()
    assert not any(scratch.exists() for scratch in scratches)


@pytest.mark.parametrize("campaign", ["hang"], indirect=True)
def test_ctrl_c_reaches_the_campaign_alone(campaign):
    process, scratches = campaign
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "closed\n"
    assert process.wait() == 0
    assert wait_until_gone(5.0) == set()
    assert not any(scratch.exists() for scratch in scratches)


def test_folders_that_are_deep_or_locked_are_removed(tmp_path):
    """Python's own removal ends in a recursion."""
    deep, locked = tmp_path / "deep", tmp_path / "locked"
    (locked / "inner").mkdir(parents=True)
    locked.chmod(0)
    deep.mkdir()
    place = os.open(deep, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    for folder in (deep, locked):
        remove_tree(folder)
        assert not folder.exists()
