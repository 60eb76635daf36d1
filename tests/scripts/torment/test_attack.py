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
from scripts.torment.attack import Surface, Tally, one, run, surfaces
from scripts.torment.attack.confined import confined
from scripts.torment.attack.confinement import confines


@pytest.mark.parametrize(("name", "count"), [("frames", 400), ("pages", 50), ("workers", 5)])
def test_surface(name, count):
    tally = Tally()
    list(run(surfaces()[name], 1, 0, count, tally))
    assert tally.attacks == count
    assert tally.trouble == {}


@pytest.mark.skipif(not confines(), reason="the kernel cannot confine a process")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("settings", 12),
        pytest.param("graphs", 4, marks=pytest.mark.slow),
        pytest.param("bombs", 4, marks=pytest.mark.slow),
        ("texts", 4),
    ],
)
def test_surface_of_files(name, count):
    """In a process of its own: the attacks are carried out in a fork of it, and threads that other
    tests have left behind would keep that from computing."""
    script = ["-m", attacks.__name__]
    command = [sys.executable, *script, "--surface", name, "--count", str(count), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [line.replace("│", "").split() for line in done.stdout.splitlines() if name in line]
    assert row[1] == str(count) and row[-1] == "0"  # attacks, trouble


@pytest.mark.skipif(not confines(), reason="the kernel cannot confine a process")
def test_an_attack_writes_nowhere_else_and_may_kill_its_process(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "in"
    victim.write_text("precious")
    folder.mkdir()

    def attack(rng):
        (folder / "file").write_text("fine")
        if rng.random() < 1 / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        subprocess.run(["sh", "-c", f"echo > {victim}; rm {victim}"], stderr=subprocess.DEVNULL)
        victim.write_text("spoilt")

    with confined(folder, lambda: attack) as attacked:
        told = [one(attacked, random.Random(seed)).splitlines()[-1] for seed in (0, 1, 2)]
    assert told[1] == "the process has ended with -9"
    assert told[0].startswith("PermissionError") and told[2].startswith("PermissionError")
    assert victim.read_text() == "precious"


def test_trouble_is_counted(monkeypatch):
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

    surface = Surface("test", 1, lambda: nullcontext(attack), "")
    tally = Tally()
    list(run(surface, 0, 0, 30, tally))
    kinds = {problem.splitlines()[-1] for problem in tally.trouble.values()}
    assert kinds == {
        "KeyError: 'raise'",
        f"{attacks.__name__}.Hang: after 0 s",
        "told",
        "SystemExit: 0",
    }
    assert len(tally.trouble) < 30
