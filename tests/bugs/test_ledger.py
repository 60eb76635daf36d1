"""The ledger: bugs, their fields and states, the folder, and issues already filed."""

from __future__ import annotations

import fcntl
import os
import random
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import Unreadable
from nnfuzz.bugs.bug import Bug, BugState, ScriptResult, bug_text, newer, read_bug
from nnfuzz.bugs.ledger import Ledger, bugs_of, is_ledger, known_bugs, recognised_by, refusal
from nnfuzz.findings.folder import write_finding
from nnfuzz.triage.keys import Key
from tests.bugs.conftest import BUG, TODAY

LEAST = 'title = "a"\nsystem = "b"\n'


def test_a_bug_is_read_back(tmp_path):
    bug = BUG.noted("filed by hand\nand twice", TODAY)
    (tmp_path / "bug.toml").write_text(bug_text(bug))
    assert read_bug(tmp_path / "bug.toml") == bug
    assert bug.notes == ("2026-11-23 filed by hand and twice",)


def test_lists_of_several_have_a_line_for_each(tmp_path):
    text = bug_text(replace(BUG, operators=("Add", "Pow"), title='"\\ \x1b'))
    assert 'operators = [\n    "Add",\n    "Pow",\n]\n' in text and "\x1b" not in text
    (tmp_path / "bug.toml").write_text(text)
    assert read_bug(tmp_path / "bug.toml").operators == ("Add", "Pow")


def test_what_is_written_by_hand_may_be_short(tmp_path):
    (tmp_path / "bug.toml").write_text(LEAST + "first_seen = 2026-11-23 # not quoted\n")
    assert read_bug(tmp_path / "bug.toml") == Bug("a", "b", first_seen="2026-11-23")


@pytest.mark.parametrize(
    "text, message",
    [
        ("titel = 'a'", "there is no field 'titel'; did you mean 'title'"),
        ("system = 'b'", "title is missing"),
        (LEAST + "state = 'nw'", "state: 'nw' is none of new, filed, confirmed, fixed"),
        (LEAST + "keys = 'x'", "keys should be list, not 'x'"),
        (LEAST + "right_release = 'master'", "'master' is no release such as 1.31.1"),
        (LEAST + "signatures = ['Pow']", "'Pow' is no signature"),
        (LEAST + "state = 'duplicate'", "state duplicate and duplicate_of go together"),
        (LEAST + "upstream = '7'", "upstream '7' is no address such as https://"),
        (LEAST + "first_seen = 'May'", "first_seen 'May' is no day such as 2026-11-23"),
        (LEAST + "[releases]\n'1.0' = 'bad'", "releases.1.0: 'bad' is none of reproduces"),
        (LEAST + "schema = 2", "has the schema 2, this nnfuzz reads 1"),
        ("title = [", "is no TOML"),
        ("title = ''\nsystem = 'b'", "title is empty"),
        (LEAST + "first_seen = '2026-13-99'", "first_seen '2026-13-99' is no day"),
        (LEAST + "notes = " + "[" * 100_000, "is no TOML"),
        (LEAST + f"schema = {'1' * 5000}", "is no TOML: Exceeds the limit"),
        (LEAST + "a." * 50_000 + "a = 1", "a key has more than 8 parts"),
        (LEAST + "'a' . \"b\"." * 20 + "a = 1", "a key has more than 8 parts"),
        (LEAST + "#" * 300_000, "has more than 262,144 bytes"),
        ("title = '\udcff'", "can't decode byte"),
    ],
)
def test_a_mistake_is_one_line_with_the_file(tmp_path, text, message):
    (tmp_path / "bug.toml").write_text(text, errors="surrogateescape")
    with pytest.raises(Unreadable) as error:
        read_bug(tmp_path / "bug.toml")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "bug.toml"))


def test_what_people_have_written_stays(ledger):
    file = ledger.place("numpy/pow") / "bug.toml"
    own = "# ours\ntitle = 'a' # why\nsystem = \"numpy\"\n"
    own += "notes = [\n  'x', # said by her\n  'y',\n]\n\n[releases]\n'1.0' = 'right' # slow\n"
    file.write_text(own)
    bug = ledger.bug("numpy/pow").failing_in("2.0").noted("more", TODAY)
    ledger.put("numpy/pow", replace(bug, title="b", state=BugState.FILED))
    text = file.read_text()
    assert ledger.bug("numpy/pow").notes == ("x", "y", "2026-11-23 more")
    assert all(f"# {c}\n" in text for c in ("ours", "why", "said by her", "slow")) and "'y'" in text
    ledger.put("numpy/pow", replace(ledger.bug("numpy/pow"), notes=(), releases={}))
    assert file.read_text().startswith('# ours\ntitle = "b" # why\n')
    assert ledger.bug("numpy/pow") == replace(
        bug, title="b", state=BugState.FILED, notes=(), releases={}
    )


def test_links_of_a_ledger_are_not_followed(ledger, tmp_path):
    place, bait = ledger.place("numpy/pow"), tmp_path / "bait"
    bait.write_text(LEAST)
    for name, use in (("bug.toml", ledger.bug), ("repro.py", ledger.script)):
        (place / name).unlink()
        (place / name).symlink_to(bait)
        with pytest.raises(Unreadable, match="is a link, which is not followed"):
            use("numpy/pow")
    with pytest.raises(Unreadable, match="is a link"):
        ledger.put("numpy/pow", BUG)
    assert bait.read_text() == LEAST


def test_a_name_that_is_no_utf_8_is_told(ledger):
    os.mkdir(os.fsencode(ledger.folder) + b"/b\xff")
    (ledger.folder / os.fsdecode(b"b\xff") / "bug.toml").write_text(LEAST)
    with pytest.raises(Unreadable, match=r"rename the folder 'b\\udcff', which is no text"):
        ledger.bug(ledger.names()[0])


def test_a_bug_has_a_finding_by_signature_or_keys():
    key = Key.parse("cause:c29550a8d898")
    assert BUG.match(["c29550a8d898"], [])
    assert BUG.match([], [key])
    assert not BUG.match(["0" * 12], [Key.parse("cause:0")])
    assert replace(BUG, keys=()).match([], [key])  # among its signatures


def test_a_bug_is_known_in_the_way_in_which_it_failed():
    other = replace(BUG, keys=("cause:1", "operators:Pow"))
    assert BUG.recognised_as(other).keys == ("cause:c29550a8d898", "cause:1", "failure:mismatch")
    known, keys = BUG.known(), Key.parse_all(BUG.keys)
    assert known.has(keys, "mismatch") and not known.has(keys, "crash")
    assert replace(BUG, kind="").known().has(keys, "crash")


def test_releases_are_compared_as_versions():
    assert newer("1.10", "1.9") and not newer("1.9", "1.9") and not newer("", "1.9")
    bug = BUG.failing_in("0.9").failing_in("10.0").failing_in("")
    assert (bug.first_bad_release, bug.last_bad_release) == ("0.9", "10.0")
    assert bug.releases["10.0"] is ScriptResult.REPRODUCES


def test_bugs_are_chosen_by_system_and_name(ledger):
    ledger.add("tvm/pow", replace(BUG, system="tvm"))
    assert ledger.names() == ["numpy/pow", "tvm/pow"] == ledger.chosen([])
    assert ledger.chosen(["tvm"]) == ["tvm/pow"] == ledger.chosen(["tvm/pow"])
    with pytest.raises(Unreadable, match="has no bug 'num'"):
        ledger.chosen(["num"])
    with pytest.raises(Unreadable, match="did you mean 'numpy/pow'"):
        ledger.bug("numpy/pwo")
    with pytest.raises(Unreadable, match="not inside of it"):
        ledger.bug("../pow")
    with pytest.raises(Unreadable, match="nnfuzz bugs add CAMPAIGN makes one"):
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
    assert bugs_of({"a": gone}, BUG.signatures, ()) == ["a"]
    circle = {"a": gone, "b": replace(gone, duplicate_of="a")}
    assert set(bugs_of(circle, BUG.signatures, ())) == {"a", "b"}


def test_what_is_fixed_is_not_known(ledger):
    ledger.add("numpy/fixed", replace(BUG, signatures=("0" * 12,), keys=(), state=BugState.FIXED))
    assert known_bugs(ledger, BackendRegistry()).lines() == (
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
    assert refusal({"a": FILED}, ["a"]) == "a is filed already https://example.org/7"
    assert not refusal({"a": FILED}, [])
    assert not refusal({"a": BUG}, ["a"])
    wontfix = replace(BUG, state=BugState.WONTFIX)
    assert refusal({"a": BUG, "b": wontfix}, ["a", "b"]) == "b is wontfix already"


def test_a_finding_has_its_bugs(finding_of, registry, tmp_path):
    found = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "found", found)
    own = replace(BUG, system=found.system, signatures=(found.signature.hash,))
    bugs = {"own": own, "other": replace(BUG, system="planted")}
    signatures, keys = recognised_by([folder], registry)
    assert bugs_of(bugs, signatures, keys, "planted") == ["own"]


LEDGER = Path(__file__).parents[2] / "docs" / "bugs"
LEVELS = re.compile(r"levels: (.*?); default: ")
NEEDS = re.compile(r"^Needs (.*?)(?:; .*)?$", re.MULTILINE)
ROW = re.compile(r"^\| \S+ \| (\S+) \| [a-z]", re.MULTILINE)
VERSION = re.compile(r"^- (\S+) (\S.*)$", re.MULTILINE)


def differences(report, script):
    """What a report says otherwise than the script beside it."""
    table = report.partition("\n## Levels\n")[2].partition("\n## ")[0]
    levels, rows = LEVELS.search(script), {*ROW.findall(table)} - {"level"}
    if levels and rows and {*levels[1].split(", ")} != rows:
        yield f"levels {rows}"
    shown, needs = dict(VERSION.findall(report)), NEEDS.search(script)
    for name, version in re.findall(r"([a-z]\S*) (\d[^\s,]*)(?:,|$)", needs[1] if needs else ""):
        if version != shown.get(name):
            yield f"{name} {shown.get(name)} is not {version}"


def test_every_report_follows_its_script():
    told, read = {}, 0
    for script in sorted(LEDGER.glob("*/*/repro.py")):
        report = script.with_name("report.md")
        if report.is_file():
            read += 1
            found = list(differences(report.read_text(), script.read_text()))
            told |= {script.parent.name: found} if found else {}
    assert read > 200 and not told
