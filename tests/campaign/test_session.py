"""A whole campaign with a stub producer: nothing is lost, whatever dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive
import stub_producer

from nnfuzz.base.writing import as_json
from nnfuzz.campaign import session
from nnfuzz.campaign.lane_jobs import PATIENCE
from nnfuzz.campaign.lanes import PoolError
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.store.store import FILE, Store, StoreError

HERE = Path(__file__).parent
ROUNDS = 2  # of the hostile plan in 100 tests


def run(folder: Path, tests: int, plan: str, backend: str, **more):
    config, registry = drive.settings(tests, plan, backend, **more)
    with Store.create(folder, as_json(config)) as store:
        return run_campaign(store, config, registry, Silent(), folder / "cache")


def start(folder: Path, tests: int, plan: str, backend: str, *rest: str) -> subprocess.Popen:
    command = [sys.executable, str(HERE / "drive.py"), str(folder), str(tests), plan, backend]
    return subprocess.Popen(
        [*command, *rest], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for_tests(folder: Path, count: int) -> None:
    for _ in range(6000):
        time.sleep(0.05)
        try:
            with Store.open(folder, write=False) as store:
                if store.tests.count() >= count:
                    return
        except StoreError:
            continue
    raise AssertionError("the campaign does not get on")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "campaign"
    result = run(folder, 100, "hostile", "hostile,timeout=0.4,memory=0.1")
    return folder, result


def test_a_hostile_campaign_finishes_with_every_index_recorded(hostile):
    folder, result = hostile
    with Store.open(folder, write=False) as store:
        rows = list(store.tests.rows())
    assert [row.index for row in rows] == list(range(100))
    assert result.summary.tests == 100 - 5 * ROUNDS
    lost = {"fault": 3 * ROUNDS, "export": ROUNDS, "inputs": ROUNDS}
    assert result.summary.not_run == lost
    saved = json.loads((folder / "summary.json").read_text())
    assert saved == json.loads(json.dumps(as_json(result.summary)))


def test_every_event_of_a_hostile_campaign_has_its_stage_and_signal(hostile):
    folder, _ = hostile
    plan = stub_producer.hostile(0, {}).plan
    with Store.open(folder, write=False) as store:
        seen = {row.index: row for row in store.tests.rows()}
        events = store.events.rows()
    wanted = {
        "segfault": ("crash", "SIGSEGV"),
        "abort": ("crash", "SIGABRT"),
        "fpe": ("crash", "SIGFPE"),
        "hang": ("timeout", ""),
        "os_exit": ("crash", ""),
        "sys_exit": ("crash", ""),
        "raise": ("exception", ""),
        "panic": ("exception", ""),
        "raise_unsupported": ("unsupported", ""),
    }
    for index, row in seen.items():
        how, stage, level = plan[index % len(plan)].split() if row.status == "run" else "   "
        if how in wanted:
            outcome = row.outcomes["hostile"][level]
            lost = how == "raise_unsupported" and level != "O0" and stage != "import"
            assert (outcome.kind, outcome.signal) == (("exception", "") if lost else wanted[how])
            assert outcome.stage == stage
        elif how in ("nothing", "print_megabytes", "close_stdout", "daemon"):
            assert as_json(row.outcomes) == {"hostile": {"O0": "ok", "O2": "ok"}}, how
    deaths = Counter(event.signal for event in events if event.kind == "death")
    assert deaths["SIGSEGV"] == 3 * ROUNDS  # the one in import counts at both levels
    assert deaths["SIGABRT"] == deaths["SIGFPE"] == ROUNDS


def test_a_mistake_of_the_adapter_costs_one_test_and_is_no_finding(tmp_path):
    run(tmp_path / "campaign", 1, "sloppy", "hostile")
    notes: list[str] = []
    result = go_on(tmp_path / "campaign", 12, "sloppy", "hostile", notes)
    assert result.findings == [] and result.summary.faults == 2
    (printed,) = (note for note in notes if "adapter" in note)  # and not once a fault
    assert re.search(r"/5: adapter of hostile.*KeyError: 'absent' \(hostile\.py:\d+\)", printed)
    with Store.open(tmp_path / "campaign", write=False) as store:
        status = {row.index: row.status for row in store.tests.rows()}
        (one, _) = (event for event in store.events.rows() if event.kind == "fault")
    assert [index for index in range(12) if status[index] == "fault"] == [5, 11]
    assert "KeyError: 'absent'" in one.message and "hostile.py" in one.message


def test_a_finding_that_cannot_be_written_costs_one_test(tmp_path, monkeypatch):
    def fail(*arguments):
        raise ValueError("no template")

    monkeypatch.setattr(session, "write_finding", fail)
    result = run(tmp_path / "campaign", 1, "wrong_1111", "liar")
    assert (result.summary.faults, result.findings) == (1, [])
    with Store.open(tmp_path / "campaign", write=False) as store:
        (fault,) = (event for event in store.events.rows() if event.kind == "fault")
    assert (fault.stage, fault.message) == ("record", "ValueError: no template")


def test_an_adapter_that_has_never_worked_ends_the_campaign(tmp_path):
    with pytest.raises(PoolError, match=r"KeyError: 'absent'[\s\S]*hostile\.py"):
        run(tmp_path / "campaign", 50, "hasty", "hostile")
    with Store.open(tmp_path / "campaign", write=False) as store:
        assert store.findings() == []


def go_on(folder: Path, tests: int, plan: str, backend: str, notes=None):
    config, registry = drive.settings(tests, plan, backend)
    observer = Silent()
    observer.note = (notes if notes is not None else []).append
    with Store.open(folder) as store:
        return run_campaign(store, config, registry, observer, folder / "cache")


def test_a_resumed_campaign_tries_faults_again(tmp_path):
    folder, notes = tmp_path / "campaign", []
    assert run(folder, 12, "sloppy", "hostile").summary.faults == 2
    result = go_on(folder, 12, "quiet", "hostile", notes)
    assert result.summary.tests == 12
    assert result.summary.faults == 0 and result.summary.not_run == {}
    (note,) = (note for note in notes if "fault of nnfuzz" in note)
    assert note.startswith("2 tests of earlier sessions")


def test_an_index_with_two_faults_is_stepped_over(tmp_path):
    folder, notes = tmp_path / "campaign", []
    run(folder, 12, "sloppy", "hostile")
    assert go_on(folder, 12, "sloppy", "hostile").summary.not_run == {"fault": 2}
    result = go_on(folder, 14, "quiet", "hostile", notes)
    assert result.summary.not_run == {"fault": 2} and result.summary.tests == 12
    assert any(note.startswith("stepped over") and note.endswith("tests 5, 11") for note in notes)


def test_no_index_stops_every_session(tmp_path):
    """Each session ends at the first test, until that one is stepped over."""
    folder = tmp_path / "campaign"
    with pytest.raises(PoolError):
        run(folder, 3, "hasty", "hostile")
    for _ in range(20):
        try:
            result = go_on(folder, 3, "hasty", "hostile")
        except PoolError:
            continue
        break
    assert result.summary.not_run == {"fault": 3}


def test_inputs_that_kill_the_producer_are_a_test_without_a_reference(tmp_path):
    folder = tmp_path / "campaign"
    result = run(folder, 20, "dividing", "hostile")
    assert result.summary.faults == 0 and result.summary.not_run == {"inputs": 2}
    with Store.open(folder, write=False) as store:
        events = [(event.kind, event.stage, event.signal) for event in store.events.rows()]
    assert events == [("death", "inputs", "SIGFPE")] * 2


def test_a_defect_of_nnfuzz_that_one_test_shows_costs_that_test(tmp_path):
    result = run(tmp_path / "c", 5, "misjudging", "liar")
    assert (result.summary.tests, result.summary.not_run) == (4, {"fault": 1})
    with Store.open(tmp_path / "c", write=False) as store:
        (event,) = (event for event in store.events.rows() if event.kind == "fault")
    assert (
        event.message == "nnfuzz.testcase.client.ProducerError: ZeroDivisionError: of ours"
        and event.details
    )


def test_lost_outputs_are_outcomes_and_the_campaign_goes_on(tmp_path):
    result = run(tmp_path / "campaign", 24, "losing", "hostile")
    assert result.summary.tests == 24 and result.summary.faults == 0
    assert result.summary.outcomes["exception"] == 2
    (row,) = result.findings
    assert (row.kind, row.stage, row.occurrences) == ("exception", "execute", 2)
    assert "is missing" in row.title


def test_a_producers_misfortune_is_a_fault_of_nnfuzz(hostile):
    folder, result = hostile
    with Store.open(folder, write=False) as store:
        faults = [event for event in store.events.rows() if event.kind == "fault"]
    assert len(faults) == result.summary.faults == 3 * ROUNDS
    assert {event.backend for event in faults} == {""}
    assert Counter(event.signal for event in faults)["SIGSEGV"] == ROUNDS
    messages = Counter(event.message.split(" in ")[0] for event in faults)
    assert messages["ValueError: a defect of the producer"] == ROUNDS
    assert messages["worker ended by timeout SIGKILL"] == ROUNDS


def test_findings_of_a_hostile_campaign_are_complete_folders(hostile):
    folder, result = hostile
    assert result.summary.findings == len(result.findings) >= 10
    plan = stub_producer.hostile(0, {}).plan
    found = set()
    for row in result.findings:
        finding = json.loads((folder / row.folder / "finding.json").read_text())
        assert finding["signature"]["hash"] == row.signature
        assert finding["test"] == str(row.test)
        found.add(plan[row.test.index % len(plan)])
        assert {path.name for path in (folder / row.folder).iterdir()} >= {
            "finding.json",
            "report.md",
            "inputs.npz",
            "expected.npz",
        }
    harmless = ("nothing", "print", "raise_unsupported", "close_stdout", "daemon", "produce")
    lost = {doc for doc in plan if doc.startswith("raise_unsupported") and doc.endswith(" O2")}
    told = {doc for doc in plan if not doc.startswith(harmless)}
    assert found == told | lost | {"produce export"}
    again = Counter(row.occurrences for row in result.findings)
    assert again[ROUNDS] >= 8


def test_mismatches_are_confirmed_and_flaky_ones_set_apart(tmp_path):
    result = run(tmp_path / "c", 12, "lying", "liar")
    assert result.summary.outcomes["mismatch"] == 4 + 2
    assert result.summary.outcomes["unsupported"] == 4
    assert result.summary.flaky == 2
    (row,) = result.findings
    assert (row.kind, row.stage, row.occurrences) == ("mismatch", "compare", 4)
    assert row.test.index == 1


@pytest.mark.parametrize(
    "plan, rate",
    [
        pytest.param("wrong_1111", None, marks=pytest.mark.slow),
        ("wrong_1101", (2, 3)),
        pytest.param("abort_1111", None, marks=pytest.mark.slow),
        ("abort_1011", (2, 3)),
        pytest.param("raise_11", None, marks=pytest.mark.slow),
        ("raise_10", (0, 1)),
    ],
)
@pytest.mark.own
def test_only_what_fails_in_every_fresh_worker_counts(tmp_path, plan, rate):
    result = run(tmp_path / "c", 1, plan, "liar")
    flaky = result.summary.flaky_failures
    assert len(result.findings) == (rate is None)
    assert [(row.repeated, row.tried) for row in flaky] == ([rate] if rate else [])
    with Store.open(tmp_path / "c", write=False) as store:
        events = [event.message for event in store.events.rows() if event.kind == "flaky"]
        assert [row.title for row in store.occurrences.flaky()] == [row.title for row in flaky]
    assert [text.startswith(f"{rate[0]} of {rate[1]} times: liar: ") for text in events] == (
        [True] if rate else []
    )


def test_direct_lowering_tells_whether_the_exporter_is_to_blame(tmp_path):
    result = run(tmp_path / "c", 2, "exporting", "liar")
    assert [row.party for row in result.findings] == ["exporter"]
    finding = json.loads((tmp_path / "c" / result.findings[0].folder / "finding.json").read_text())
    assert finding["verdict"]["mismatches"]["liar@1/cpu/O1:direct"] == []
    assert finding["blame"]["coordinate"] == "form"
    assert finding["blame"]["wrong"] == "liar@1/cpu/O0:torchscript"


def test_a_level_that_does_well_accuses_the_optimiser(tmp_path):
    result = run(tmp_path / "c", 2, "lying", "liar")
    assert [row.party for row in result.findings] == ["optimiser"]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_accuracy_that_is_given_away_is_a_finding_of_its_own(tmp_path, share):
    result = run(tmp_path / "c", 4, "giving", "liar", defaults=share)
    title = "liar: accuracy given away by default: right with honest=1 (default only)"
    assert [(row.title, row.occurrences) for row in result.findings] == [(title, 2)] * bool(share)


def test_known_signatures_are_counted_and_not_reported(tmp_path):
    first = run(tmp_path / "a", 6, "lying", "liar")
    known = tuple(row.signature for row in first.findings)
    second = run(tmp_path / "b", 6, "lying", "liar", known=known)
    assert second.findings == []
    assert second.summary.known == 2


def test_a_killed_campaign_resumes_without_loss(tmp_path):
    folder = tmp_path / "c"
    process = start(folder, 60, "lying", "liar")
    wait_for_tests(folder, 15)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with Store.open(folder) as store:
        before = {row.index: row for row in store.tests.rows()}
        findings = {row.signature for row in store.findings()}
    assert 15 <= len(before) < 60 and findings
    resumed = start(folder, 60, "lying", "liar", "resume")
    output, _ = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, output
    with Store.open(folder, write=False) as store:
        after = {row.index: row for row in store.tests.rows()}
        (row,) = store.findings()
    assert sorted(after) == list(range(60))
    assert all(after[index] == row for index, row in before.items())
    assert row.signature in findings
    assert row.occurrences == 60 // 3
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["tests"] == 60 and summary["occurrences"] == row.occurrences


def test_a_campaign_without_any_test_case_gives_up(tmp_path):
    with pytest.raises(PoolError, match="a defect of the producer"):
        run(tmp_path / "c", 1000, "hopeless", "liar")
    summary = json.loads((tmp_path / "c" / "summary.json").read_text())
    assert summary["tests"] == 0 and summary["faults"] == PATIENCE


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_ctrl_c_ends_with_the_summary(tmp_path, number):
    folder = tmp_path / "c"
    process = start(folder, 100_000, "quiet", "hostile")
    wait_for_tests(folder, 20)
    process.send_signal(number)
    if number == signal.SIGHUP:  # as shells and the kernel do, both
        process.send_signal(number)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    assert "ending" in output and "done:" in output
    with Store.open(folder, write=False) as store:
        done = store.tests.count()
    assert json.loads((folder / "summary.json").read_text())["tests"] == done


def test_a_second_ctrl_c_kills(tmp_path):
    folder = tmp_path / "c"
    process = start(folder, 100_000, "quiet", "hostile,timeout=60")
    wait_for_tests(folder, 5)
    os.kill(process.pid, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, -signal.SIGTERM)
    assert (folder / FILE).exists()
