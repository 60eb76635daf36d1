"""A short run of the random attacker: nothing goes wrong, and it would be noticed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest

from scripts.torment import attack as attacks
from scripts.torment.attack import one, run, surfaces
from scripts.torment.attack.files import Mortal


def test_workers_survive():
    assert [problem for _, problem in run("workers", surfaces()["workers"], 1, 0, 5)] == [""] * 5


@pytest.mark.parametrize(
    ("name", "count"), [("campaigns", 4), pytest.param("graphs", 4, marks=pytest.mark.slow)]
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
