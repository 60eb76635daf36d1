"""Campaigns that an nnfuzz with other rules of triage has keyed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive
from test_remerge import CASES, add

import nnfuzz.triage.signature
from nnfuzz.backend.normalise import normalise
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.findings.keyed import known_by
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.identity import ErrorIdentity
from nnfuzz.triage.known import KnownFailures
from nnfuzz.upkeep.rekeying import RULES, rekey, rules_version

TESTS = 18  # two rounds of the plan


def campaign(folder, tests=TESTS, plan="failing", backend="hostile"):
    config, registry = drive.settings(tests, plan, backend, learn=False, throttle=0)
    start = Store.open if folder.exists() else lambda path: Store.create(path, as_json(config))
    with start(folder) as store:
        run_campaign(store, config, registry, Silent(), SupportCache(folder / "cache"))
        return keys(store)


def keys(store):
    """What rules decide: which tests have which signature, and what the findings are called."""
    occurred = sorted((str(test), signature) for signature, test, _, _ in store.occurrences.rows())
    rows = store.signatures.rows()
    return occurred, sorted(
        (row.signature, str(row.test), row.title, row.complaint) for row in rows
    )


def older(store):
    store.set_meta(RULES, "of an older nnfuzz")


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    folder = tmp_path_factory.mktemp("today") / "c"
    return folder, campaign(folder)


def in_other_words(text, names=()):
    return f"in other words: {normalise(text, names)}"


def test_a_new_campaign_has_the_rules_of_today(today):
    _, registry = drive.settings(TESTS, "failing", "hostile")
    with Store.open(today[0], write=False) as store:
        assert store.meta(RULES) == rules_version(registry, ["hostile"])
    assert rules_version(registry, ["hostile"]) != rules_version(registry, ["liar"])
    assert rules_version(registry, []) == rules_version(registry, ["not installed"])


def test_the_same_rules_give_the_same_keys(today):
    folder, wanted = today
    config, registry = drive.settings(TESTS, "failing", "hostile")
    notes: list[str] = []
    with Store.open(folder) as store:
        older(store)
        assert not rekey(store, config, registry, notes.append)
        assert keys(store) == wanted and notes == []
        assert store.meta(RULES) == rules_version(registry, ["hostile"])


def test_a_campaign_of_other_rules_is_keyed_anew_when_it_is_resumed(today, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(nnfuzz.triage.signature, "normalise", in_other_words)
        before = campaign(tmp_path / "c", TESTS - 1)
        with Store.open(tmp_path / "c") as store:
            older(store)
    assert not {s for _, s in before[0]} <= {s for _, s in today[1][0]}
    assert campaign(tmp_path / "c") == today[1]
    with Store.open(tmp_path / "c", write=False) as store:
        for row in store.signatures.rows():
            told = (store.folder / row.folder / "finding.json").read_text()
            report = (store.folder / row.folder / "report.md").read_text()
            assert row.signature in told and row.signature in report


def nameless(outcome, names=()):
    return ErrorIdentity(kind=outcome.kind, stage=outcome.stage, message="")


def test_what_older_rules_did_not_tell_apart_is_parted(today, tmp_path, monkeypatch):
    """Tests that were lumped together have signatures of their own; their findings come later."""
    with monkeypatch.context() as patch:
        patch.setattr(nnfuzz.triage.signature, "error_identity", nameless)
        lumped = campaign(tmp_path / "c")
    assert len(lumped[1]) < len(today[1][1])
    config, registry = drive.settings(TESTS, "failing", "hostile")
    notes: list[str] = []
    with Store.open(tmp_path / "c") as store:
        older(store)
        assert rekey(store, config, registry, notes.append)
        occurred, findings = keys(store)
    assert occurred == today[1][0]
    assert set(findings) < set(today[1][1])
    assert "become findings when they occur again" in notes[0]


@pytest.mark.slow
def test_mismatches_follow_the_folder_of_their_finding(tmp_path, monkeypatch):
    wanted = campaign(tmp_path / "today", 12, "lying", "liar")
    with monkeypatch.context() as patch:
        patch.setattr(nnfuzz.triage.signature, "neighbourhood", lambda graph, output: ["Else"])
        other = campaign(tmp_path / "c", 12, "lying", "liar")
        with Store.open(tmp_path / "c") as store:
            older(store)
    assert other != wanted
    found = campaign(tmp_path / "c", 12, "lying", "liar")
    flaky = {test for test, _ in wanted[0]} - {test for test, signature, *_ in found[1]}
    assert found[1] == wanted[1] and flaky


def test_a_known_finding_is_matched_by_its_keys_whatever_hash_it_was_recorded_with(tmp_path):
    (told, *_) = json.loads((CASES / "ort_dft_in_float32.json").read_text())
    with Store.create(tmp_path / "old", {}) as store:
        add(store, 0, told)
        folder = store.folder / "findings/0/reduced"
    known = known_by(folder, BackendRegistry())
    assert "0" * 12 in known.hashes and len(known.keys) == 1
    assert KnownFailures.parse(known.lines()) == known
    with Store.create(tmp_path / "new", {}) as store:
        add(store, 1, told, keys=tuple(map(str, known.keys[0])))
        lines = tuple(line for line in known.lines() if line.startswith("["))
        recorder = Recorder(store, lines, lambda *_: None, lambda row: None)
        result = replace(recorder.reductions["1" * 12], refined="by other rules")
        assert recorder.reduced(result, Numbered(0, 1)) is not None
        assert store.findings() == [] and store.occurrences.buckets() == {}


def test_known_failures_may_be_renewed_when_a_campaign_goes_on():
    config, _ = drive.settings(1, "failing", "hostile")
    assert config.resumed_with({"known": ("abc",)}).known == ("abc",)
