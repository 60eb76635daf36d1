"""A year in small: releases of a tiny compiler, whose bugs come and go, walked by a watch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import date

import pytest

from nnfuzz.backend.releases import environments
from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.bugs.history import changes_of, events
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.scripts import run_script
from nnfuzz.bugs.turns import read_state
from tests.backend.releases import use_index
from tests.watch.year import LIVES, RELEASES, broken_in, make_year, settings

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "nnfuzz", "watch", "nnfuzz.toml", "--quiet"]
SECONDS = 900


@pytest.fixture
def year(tmp_path, monkeypatch):
    """A folder with an index of all releases and the settings of a watch."""
    make_year(tmp_path / "index")
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    settings(tmp_path)
    return tmp_path


def watched(folder, *arguments):
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=SECONDS
    )


def truth(bug, release):
    """What a bug's script shows in a release, by the code of the compiler."""
    wrong = set(bug.operators) & broken_in(release)
    return ScriptResult.REPRODUCES if wrong else ScriptResult.RIGHT


def announced(folder):
    lines = (folder / "news.jsonl").read_text().splitlines()
    return [event for line in filter(None, lines) for event in json.loads(line)["events"]]


def check_ledger(folder):
    """Every state agrees with the truth and with running the scripts once more."""
    book = Ledger(folder / "bugs")
    pythons = {e.release: e.python for e in environments() if e.distribution == "toyyear"}
    bugs = book.bugs()
    for name, bug in bugs.items():
        assert len(bug.operators) == 1, f"{name} is not reduced"
        for release, result in bug.releases.items():
            assert result is truth(bug, release), (name, release)
            run = run_script(book.script(name), pythons[release])
            assert run.result is result, (name, release, run.message)
        fixed = truth(bug, RELEASES[-1]) is ScriptResult.RIGHT
        assert (bug.state is BugState.FIXED) == fixed, name
    return bugs


def test_every_state_of_a_year_agrees_with_the_scripts(year):
    done = watched(year, "--turns", str(len(RELEASES) + 1))
    assert done.returncode == 1, done.stdout + done.stderr
    bugs = check_ledger(year)
    operators = [operator for bug in bugs.values() for operator in bug.operators]
    assert sorted(operators) == sorted(LIVES), "each bug once"
    back = next(bug for bug in bugs.values() if bug.operators == ("Neg",))
    assert changes_of(back) == {
        "1.1": ScriptResult.REPRODUCES,
        "1.3": ScriptResult.RIGHT,
        "1.4": ScriptResult.REPRODUCES,
    }
    assert (back.state, back.first_bad_release) == (BugState.CONFIRMED, "1.1")
    told = [(event["bug"], event["text"]) for event in announced(year)]
    assert len(told) == len(set(told))
    news = [text for _, text in told if text.startswith("new: ")]
    assert len(news) == len(LIVES)
    assert read_state(Ledger(year / "bugs")).checked == {"toyyear": RELEASES}
    assert not any((year / "work" / "toyyear").iterdir())


def test_kills_at_twenty_random_places_leave_the_ledger_whole(year):
    draw = random.Random(7)
    for _ in range(20):
        child = subprocess.Popen(
            COMMAND, cwd=year, stdout=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(draw.uniform(2, 25))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if (year / "bugs").is_dir():
            Ledger(year / "bugs").bugs()
            read_state(Ledger(year / "bugs"))
    done = watched(year, "--turns", str(len(RELEASES) + 1))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    bugs = check_ledger(year)
    assert len({bug.operators for bug in bugs.values()}) == len(bugs), "a bug is there twice"
    happened = {event.id for event in events(bugs)}
    assert {event["id"] for event in announced(year)} == happened, "each at least once"
    assert read_state(Ledger(year / "bugs")).outbox == ()


def test_sigterm_ends_a_turn_and_records_it(year):
    child = subprocess.Popen(COMMAND, cwd=year, stdout=subprocess.PIPE, text=True)
    time.sleep(15)
    child.send_signal(signal.SIGTERM)
    told, _ = child.communicate(timeout=300)
    assert child.returncode in (0, 1) and "ended after" in told
    assert read_state(Ledger(year / "bugs")).turns[-1].day == date.today().isoformat()
