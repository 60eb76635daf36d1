"""Turns follow each other whatever breaks off, alone at a ledger."""

import contextlib
import json
import os
from datetime import date
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.checking import Checker
from nnfuzz.bugs.environments import Interpreter, Interpreters
from nnfuzz.bugs.turns import Turn, read_state
from nnfuzz.watch.candidates import Candidate
from nnfuzz.watch.rounds import WatchLoop, watching_alone
from nnfuzz.watch.settings import SystemSettings, WatchSettings
from nnfuzz.watch.turn import Surroundings, SystemTurn
from tests.bugs.conftest import ledger

__all__ = ["ledger"]
CHECK = SystemTurn.check


class Listed:
    """Candidates that are given; prepare may fail."""

    def __init__(self, release, error=None):
        self.settings = SystemSettings(backend="numpy", tests=1)
        self.release, self.error, self.failed = release, error, {}

    def prepare(self):
        if self.error:
            raise self.error
        return self.release

    def next(self, checked, first=""):
        place = Interpreter("python", self.release)

        def choose(bug):
            return place

        return Candidate(self.release, self.release, choose, self.prepare, choose)


def counted(turn):
    return Turn(turn.number, turn.name, "2026-11-24", turn.candidate.release, 7)


@pytest.fixture
def loop(ledger, tmp_path, monkeypatch):
    """A loop over candidates whose campaigns find nothing; what it logs is in `loop.log`."""
    log = []

    def make(candidates, **given):
        settings = WatchSettings(
            systems={"a": Listed("1.0").settings},
            work=tmp_path / "work",
            publish=tmp_path / "site",
            **given,
        )
        registry = BackendRegistry()
        around = Surroundings(
            settings,
            ledger,
            registry,
            Interpreters(registry, log.append),
            log.append,
            lambda config, folder: contextlib.nullcontext(),
            lambda: False,
            lambda: date(2026, 11, 24),
        )
        return WatchLoop(around, candidates)

    monkeypatch.setattr(SystemTurn, "check", lambda turn: True)
    monkeypatch.setattr(SystemTurn, "fuzz", counted)
    monkeypatch.setattr(WatchLoop, "_wait", lambda self: None)
    make.log = log
    return make


def test_a_release_is_checked_once_and_every_turn_is_recorded(loop, ledger, tmp_path):
    made = loop({"a": Listed("1.0")})
    made.run(2)
    state = read_state(ledger)
    assert state.checked == {"a": ("1.0",)}
    assert [(t.number, t.tests) for t in state.turns] == [(1, 7), (2, 7)]
    assert loop.log.count("a: 1.0 is new") == 1
    assert (made.done, made.announced) == (2, 0), "what was there already is not new"
    assert "numpy/pow" in (tmp_path / "site" / "index.html").read_text()


def test_a_script_that_was_run_in_a_release_is_not_run_there_again(loop, ledger, monkeypatch):
    ran = []

    def check_all(self, bugs):
        ran.append(sorted(bugs))
        return iter(())

    monkeypatch.setattr(Checker, "check_all", check_all)
    monkeypatch.setattr(SystemTurn, "check", CHECK)
    for release in ("2.0", "3.0"):
        loop({"a": Listed(release)}).run(1)
    assert "2.0" in ledger.bug("numpy/pow").releases and ran == [[], ["numpy/pow"]]


def test_what_is_new_is_announced_once(loop, ledger, tmp_path):
    news = tmp_path / "news"
    made = loop({"a": Listed("1.0")}, announce=f"cat >> {news}; echo >> {news}")
    made.run(1)
    with ledger.locked(print):
        ledger.put("numpy/pow", ledger.bug("numpy/pow").noted("back in 1.0", date(2026, 11, 24)))
    made.run(2)
    (line,) = news.read_text().splitlines()
    assert [e["text"] for e in json.loads(line)["events"]] == ["back in 1.0"]
    assert "news: numpy/pow: back in 1.0" in loop.log and made.announced == 1


def test_what_is_new_reaches_a_command_that_was_killed_or_failed(loop, ledger, tmp_path):
    news = tmp_path / "news"
    made = loop({"a": Listed("1.0")}, announce=f"test -e {news} && cat >> {news}")
    made.run(1)
    with ledger.locked(print):
        ledger.put("numpy/pow", ledger.bug("numpy/pow").noted("back in 1.0", date(2026, 11, 24)))
    made.run(1)
    (waiting,) = read_state(ledger).outbox
    news.touch()
    made.run(2)
    reached = [json.loads(line)["events"] for line in news.read_text().splitlines()]
    assert [[e["id"] for e in events] for events in reached] == [[waiting]]
    assert read_state(ledger).outbox == () and made.announced == 1


def test_a_kill_between_the_record_and_the_command_loses_nothing(loop, ledger, tmp_path):
    def killed(command, found, address, note):
        raise KeyboardInterrupt

    news = tmp_path / "news"
    made = loop({"a": Listed("1.0")}, announce=f"cat >> {news}")
    made.run(1)
    with ledger.locked(print):
        ledger.put("numpy/pow", ledger.bug("numpy/pow").noted("back in 1.0", date(2026, 11, 24)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nnfuzz.watch.rounds.announce", killed)
        made.run(1)
    assert not news.exists()
    loop({"a": Listed("1.0")}, announce=f"cat >> {news}").run(1)
    assert "back in 1.0" in news.read_text()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), ValueError("not installable\nat all")]
)
def test_a_turn_that_breaks_off_costs_no_more_than_itself(loop, ledger, error):
    broken = Listed("1.0", error)
    made = loop({"a": broken, "b": Listed("2.0")})
    made.run(2)
    assert made.done == 1 and broken.failed.keys() == {"1.0"}
    (line,) = [line for line in loop.log if "broke off" in line]
    assert line.startswith(f"a: the turn broke off: {type(error).__name__}") and "\n" not in line
    assert [(t.system, bool(t.error)) for t in read_state(ledger).turns] == [
        ("a", True),
        ("b", False),
    ]


def test_a_disk_that_stays_full_ends_no_watch(loop, ledger, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nnfuzz.bugs.turns.write_atomically", full)
    made = loop({"a": Listed("1.0")})
    made.run(3)
    assert made.done == 0 and made.broken == 3


def test_a_second_watch_at_the_ledger_is_refused_in_one_line(ledger):
    with watching_alone(ledger):
        with pytest.raises(BugError, match=str(os.getpid())) as error:
            watching_alone(ledger).__enter__()
        assert "\n" not in str(error.value)
    with watching_alone(ledger):
        assert Path(ledger.folder, ".watch.lock").read_text() == str(os.getpid())


def test_a_damaged_state_is_refused_before_anything_runs(loop, ledger):
    (ledger.folder / "watch.json").write_text("{")
    with pytest.raises(BugError, match="delete it"):
        loop({"a": Listed("1.0")}).run(1)
