"""A short run of the random attacker: nothing goes wrong, and it would be noticed."""

from __future__ import annotations

from contextlib import nullcontext

import attacks
import pytest
from attacks import Surface, run, surfaces


@pytest.mark.parametrize(("name", "count"), [("frames", 400), ("pages", 50), ("workers", 5)])
def test_surface(name, count):
    tally = run(surfaces()[name], 1, 0, count, lambda note: None)
    assert tally.attacks == count
    assert tally.trouble == {}


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
    tally = run(surface, 0, 0, 30, lambda note: None)
    kinds = {problem.splitlines()[-1] for problem in tally.trouble.values()}
    assert kinds == {"KeyError: 'raise'", "attacks.Hang: after 0 s", "told", "SystemExit: 0"}
    assert len(tally.trouble) < 30
