"""Ledgers as the tests of this room have them."""

from __future__ import annotations

from datetime import date

import pytest

from nnfuzz.bugs.bug import Bug, ScriptResult
from nnfuzz.bugs.ledger import Ledger
from tests.findings.conftest import case, finding_of, registry, runner_of, server

__all__ = ["case", "finding_of", "registry", "runner_of", "server"]

TODAY = date(2026, 11, 23)
BUG = Bug(
    "Pow of bfloat16",
    "numpy",
    "mismatch",
    operators=("Pow",),
    first_bad_release="1.0",
    last_bad_release="2.0",
    signatures=("c29550a8d898",),
    keys=("cause:c29550a8d898",),
    releases={"2.0": ScriptResult.REPRODUCES},
)


def scripted(text):
    """What fills the folder of a bug with a script."""
    return lambda folder: (folder / "repro.py").write_text(text)


@pytest.fixture
def ledger(tmp_path):
    """A ledger with the bug numpy/pow, whose script reproduces it."""
    book = Ledger(tmp_path / "bugs")
    book.add("numpy/pow", BUG, scripted("print('O3: wrong')\nraise SystemExit(1)\n"))
    return book
