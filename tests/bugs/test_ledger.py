"""The folder of bugs: found, changed by one at a time, whole after any kill."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import BugError, BugState
from nnfuzz.bugs.ledger import Ledger, bugs_of, is_ledger, known_bugs, recognised_by, refusal
from nnfuzz.findings.folder import write_finding
from tests.bugs.conftest import BUG


def test_bugs_are_chosen_by_system_and_name(ledger):
    ledger.add("tvm/pow", replace(BUG, system="tvm"))
    assert ledger.names() == ["numpy/pow", "tvm/pow"] == list(ledger.chosen([]))
    assert list(ledger.chosen(["tvm"])) == ["tvm/pow"] == list(ledger.chosen(["tvm/pow"]))
    with pytest.raises(BugError, match="has no bug 'num'"):
        ledger.chosen(["num"])
    with pytest.raises(BugError, match="did you mean 'numpy/pow'"):
        ledger.bug("numpy/pwo")
    with pytest.raises(BugError, match="not inside of it"):
        ledger.bug("../pow")
    with pytest.raises(BugError, match="nnfuzz bugs add CAMPAIGN makes one"):
        Ledger.opened(ledger.folder / "no")


def test_a_bug_has_the_files_that_it_is_filled_with(ledger, tmp_path):
    place = ledger.place("numpy/pow")
    assert {p.name for p in place.iterdir()} == {"bug.toml", "repro.py"}
    with pytest.raises(FileExistsError):
        ledger.add("numpy/pow", BUG)
    assert is_ledger(ledger.folder) and not is_ledger(tmp_path / "no")


def test_a_duplicate_counts_for_its_leader_and_open_bugs_come_first():
    gone = replace(BUG, state=BugState.DUPLICATE, duplicate_of="b")
    bugs = {"a": gone, "b": replace(BUG, signatures=(), keys=(), state=BugState.FIXED), "c": BUG}
    assert bugs_of(bugs, BUG.signatures, (), "numpy") == ["c", "b"]
    assert bugs_of(bugs, BUG.signatures, (), "tvm") == []
    assert bugs_of({"a": gone}, BUG.signatures, ()) == []


def test_what_is_fixed_is_not_known(ledger):
    ledger.add("numpy/fixed", replace(BUG, signatures=("0" * 12,), keys=(), state=BugState.FIXED))
    assert known_bugs(ledger, BackendRegistry()).lines() == (
        "c29550a8d898",
        '["cause:c29550a8d898", "failure:mismatch"]',
    )


def test_a_second_process_waits_and_notes_it(ledger):
    lock, notes = os.open(ledger.folder, os.O_RDONLY), []
    fcntl.flock(lock, fcntl.LOCK_EX)

    def note(line):
        notes.append(line)
        threading.Timer(0.1, os.close, [lock]).start()

    with ledger.locked(note):
        assert "another process changes the ledger" in notes[0]


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from nnfuzz.bugs.ledger import Ledger
from tests.bugs.conftest import BUG, TODAY, scripted

book = Ledger(Path(sys.argv[1]))

def work():
    with book.locked(print):
        for i in range(4):
            if f"numpy/b{i}" not in book.names():
                book.add(f"numpy/b{i}", BUG, scripted("x"))
            book.put(f"numpy/b{i}", book.bug(f"numpy/b{i}").noted("n", TODAY))
        book.put("numpy/b0", BUG)

def counted(limit):
    left = [limit]
    def hook(frame, event, arg):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(hook)
    work()
    sys.setprofile(None)
    return limit - left[0]

total = counted(1 << 40)
print(total)
for share in sys.argv[2:]:
    child = os.fork()
    if not child:
        counted(int(float(share) * total))
        os._exit(0)
    os.waitpid(child, 0)
    for name in book.names():
        assert book.bug(name).title == BUG.title, name
        assert book.script(name).read_text()[-3:] in ("x", "1)\\n"), name
    print("whole")
with book.locked(print):
    pass
assert not list(book.folder.rglob(".partial-*"))
"""


def test_a_kill_at_any_place_leaves_the_ledger_whole(ledger):
    draw = random.Random(0)
    shares = [str(draw.random()) for _ in range(20)]
    command = [sys.executable, "-c", KILLED, str(ledger.folder), *shares]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("whole") == 20


FILED = replace(BUG, state=BugState.FILED, upstream="https://example.org/7")


def test_what_is_filed_is_refused():
    assert refusal({"a": FILED}, ["a"], "numpy", 0) == "a is filed already https://example.org/7"
    assert not refusal({"a": FILED}, [], "numpy", 0)
    assert not refusal({"a": BUG}, ["a"], "numpy", 0)
    wontfix = replace(BUG, state=BugState.WONTFIX)
    assert refusal({"a": BUG, "b": wontfix}, ["a", "b"], "numpy", 0) == "b is wontfix already"


def test_a_flood_is_held_back():
    bugs = {str(i): FILED for i in range(3)}
    assert "3 issues of numpy are open, and --max-open is 3" in refusal(bugs, [], "numpy", 3)
    assert not refusal(bugs, [], "numpy", 4) and not refusal(bugs, [], "tvm", 3)


def test_a_finding_has_its_bugs(finding_of, registry, tmp_path):
    found = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "found", found)
    own = replace(BUG, system=found.system, signatures=(found.signature.hash,))
    bugs = {"own": own, "other": replace(BUG, system="planted")}
    signatures, keys = recognised_by([folder], registry)
    assert bugs_of(bugs, signatures, keys, "planted") == ["own"]
