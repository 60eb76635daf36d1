"""Scripts that torment: attacks and faults."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from nnfuzz.store.store import Store
from scripts.torment import attack as attacks
from scripts.torment.attack import one, run, surfaces
from scripts.torment.attack.files import Guard, Mortal
from scripts.torment.chaos import PARENT, SERVER, WORKER, compared, differences


def test_workers_survive():
    assert [problem for _, problem in run("workers", surfaces()["workers"], 1, 0, 5)] == [""] * 5


@pytest.mark.parametrize(
    ("name", "count"),
    [("campaigns", 4), ("ledgers", 40), pytest.param("graphs", 4, marks=pytest.mark.slow)],
)
def test_surface_of_files(name, count):
    """In a process of its own: the attacks are carried out in a fork of it, and threads that other
    tests have left behind would keep that from computing."""
    script = ["-m", attacks.__name__]
    command = [sys.executable, *script, "--surface", name, "--count", str(count), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: {count} attacks, 0 with trouble" in done.stdout


def test_an_attack_may_kill_its_process():
    process = Mortal(lambda: lambda rng: os.kill(os.getpid(), signal.SIGKILL))
    assert process.attack(random.Random(0)) == "the process has ended with -9"
    assert not process.alive


def test_the_guard_sees_where_a_deletion_is(tmp_path):
    """shutil.rmtree names what it deletes by folders that are open."""
    inside, outside = tmp_path / "attacked" / "own", tmp_path / "other"
    for folder in (inside, outside):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "file").touch()
    guard = Guard()
    with guard.watching(tmp_path / "attacked"):
        shutil.rmtree(inside)
        assert guard.seen == []
        with pytest.raises(PermissionError):
            shutil.rmtree(outside)
    assert guard.seen == [f"os.remove {outside}/deep/file"] and (outside / "deep/file").exists()


def test_trouble_is_told(monkeypatch):
    monkeypatch.setattr(attacks, "SECONDS", 0.05)

    def attack(rng):
        how = rng.choice(("raise", "hang", "say", "exit", "nothing"))
        while how == "hang":
            pass
        if how == "raise":
            raise KeyError(how)
        if how == "exit":
            raise SystemExit(0)
        return "told" if how == "say" else ""

    problems = [problem for _, problem in run("test", lambda: nullcontext(attack), 0, 0, 30)]
    assert {problem.splitlines()[-1] for problem in problems if problem} == {
        "KeyError: 'raise'",
        f"{attacks.__name__}.Hang: after 0 s",
        "told",
        "SystemExit: 0",
    }
    assert "" in problems and one(attack, random.Random(1), 0.05) in problems


# A campaign that meets faults loses nothing and leaves nothing behind; in small.


WEIGHTS = {PARENT: 1, WORKER: 4, SERVER: 2}
DRIVE = Path(__file__).parents[1] / "campaign" / "drive.py"


def start(folder, resume, env, settings=("120", "exporting", "liar")):
    arguments = [str(folder), *settings, *(["resume"] if resume else [])]
    return subprocess.Popen(
        [sys.executable, str(DRIVE), *arguments], env=env, stdout=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chaos")
    return folder, compared(start, folder, 7, seed=2, pause=0.3, weights=WEIGHTS)


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_left_behind(done):
    _, torment = done
    assert torment.trouble == []
    assert torment.faults.total() > 2 and len(torment.faults) > 1
    assert torment.sessions >= torment.faults[PARENT] + 1


@pytest.mark.slow
def test_a_byte_that_differs_is_told(done):
    folder, _ = done
    with Store.open(folder / "tormented", write=False) as store:
        (row, *_) = store.signatures.rows()
    inputs = folder / "tormented" / row.folder / "inputs.npz"
    before = inputs.read_bytes()
    inputs.write_bytes(before + b"?")
    (told,) = differences(folder / "calm", folder / "tormented")
    assert told.startswith(f"files of {row.signature}") and told.endswith("['inputs.npz']")
    inputs.write_bytes(before)


@pytest.mark.slow
def test_a_difference_is_told(done):
    folder, _ = done
    for found in (folder / "tormented" / "findings").iterdir():
        found.rename(found.with_name("elsewhere"))
        break
    (told,) = differences(folder / "calm", folder / "tormented")
    assert told.startswith("folders without a finding")
