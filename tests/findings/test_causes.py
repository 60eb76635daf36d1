"""What finding folders of any nnfuzz are known by today."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import Unreadable
from nnfuzz.cli.campaigns import known_failures
from nnfuzz.findings.folder import write_finding
from nnfuzz.findings.reduced import cause_of, keys_of, known_by
from nnfuzz.records.finding import Origin
from nnfuzz.reduction.candidate import ReductionFigures
from nnfuzz.reduction.diagnosis import Diagnosis
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.keys import Claim, Hypothesis, Key, KeyKind, have_one_cause
from nnfuzz.triage.signature import EVERYWHERE, OPTIMISED, digest_of

REGISTRY = BackendRegistry()


def test_a_finding_is_known_by_its_cause_and_keys(finding_of, tmp_path):
    finding = replace(finding_of("planted,bug=value"), backend=None)
    found = cause_of(finding, REGISTRY)
    assert found.hash == found.own and Key(KeyKind.CAUSE, found.hash) in found.keys
    known = known_by(write_finding(tmp_path / "reduced", finding), REGISTRY)
    kind = Key(KeyKind.FAILURE, "mismatch")
    assert known.hashes == {finding.signature.hash}
    assert known.keys == (found.keys | {kind},)
    assert known_by(tmp_path / "nothing", REGISTRY).lines() == ()


def test_keys_of_a_plug_ins_findings_take_its_registry(finding_of, registry, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "finding", finding)
    reduced = write_finding(folder / "reduced", finding)
    assert known_by(folder, registry).lines() == (finding.signature.hash,)  # the other one has more
    own, theirs = (
        [line for line in known_failures(folder, found) if line.startswith("[")]
        for found in (registry, BackendRegistry.discover())
    )
    assert own and set(own) <= {*known_by(reduced, registry).lines()} and not theirs


def test_a_failure_that_follows_from_another_is_known_by_that(finding_of):
    shared = Key(KeyKind.CAUSE, "shared")
    diagnosis = Diagnosis(keys=(shared,), follows="f" * 12)
    finding = replace(finding_of("planted,bug=raise"), backend=None)
    found = cause_of(replace(finding, origin=Origin(diagnosis=diagnosis)), REGISTRY)
    assert found.hash == "f" * 12
    assert found.keys == {shared, Key(KeyKind.CAUSE, "f" * 12)}


def test_what_a_folder_says_of_its_origin_comes_back(finding_of):
    figures = ReductionFigures((9, 2), (30, 4), 17, 1.5, (3, 3), "")
    diagnosis = Diagnosis(
        (Hypothesis(Claim.IGNORES, "Add", "input 1"),), (Key(KeyKind.CAUSE, "x"),), "", ("axis",)
    )
    signature = finding_of("planted,bug=value").signature
    whole = Origin(4, "2.0", (), signature, figures, diagnosis)
    for origin in (whole, Origin(), Origin(0)):
        assert Origin.from_json(json.loads(json.dumps(origin.to_json()))) == origin
    assert whole.to_json()["keys"] == ["cause:x"] and whole.to_json()["heals"] == ["axis"]
    assert Origin.from_json({"note": "of another version", "epoch": 1}) == Origin(1)
    with pytest.raises(Unreadable):
        Origin.from_json({"heals": [1]})


def wrong_number(finding, levels, localised, operator):
    """The keys of a wrong number of one operator. localised: what the localisation says."""
    parts = {"levels": levels, "wrong": "number", "backend": "toy", "operator": operator}
    finding = replace(finding, localisation=localised)
    cause = Cause(digest_of(parts), finding.case.graph, parts=parts)
    return keys_of(finding, cause, Symptoms())


@pytest.mark.parametrize(
    ("localised", "one"),
    [
        ({"ablation": [["Fuse"]], "passes": []}, True),
        ({"ablation": [["Fuse"]], "passes": ["Fuse"]}, False),
        ({"ablation": [], "passes": []}, False),
        (None, False),
    ],
)
def test_levels_separate_causes_unless_no_pass_is_the_cause(finding_of, localised, one):
    finding = finding_of("planted,bug=value")
    always = wrong_number(finding, EVERYWHERE, None, "TopK")
    assert have_one_cause(wrong_number(finding, OPTIMISED, localised, "TopK"), always) is one
    assert not have_one_cause(wrong_number(finding, OPTIMISED, localised, "Sort"), always)
