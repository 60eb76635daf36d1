"""What a compiler refuses is asked by models of single operators."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive
import stub_producer

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.asking import support_of
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.feedback.support import FAILING
from nnfuzz.store.store import Store

EVERY = {f"direct:{text}" for text in (stub_producer.KEY, *stub_producer.MORE)}


@pytest.mark.parametrize("stops", [False, True])
def test_a_compiler_answers_on_every_signature_until_it_is_stopped(tmp_path, stops):
    config, registry = drive.settings(1, "quiet", "liar")
    notes = []
    ((runner, found),) = support_of(config, registry, tmp_path, lambda: stops, notes.append)
    assert runner.name == "liar" and {*map(str, found)} == (set() if stops else EVERY)
    assert notes == [f"liar: asked for {len(EVERY)} signatures by direct"]
    assert {answer.kind for answer in found.values()} <= {FAILING}


def test_a_resumed_campaign_keeps_to_what_was_refused_before(tmp_path):
    config, registry = drive.settings(9, "quiet", "liar")
    with Store.create(tmp_path / "c", as_json(config)) as store:
        (first, *_) = sorted(EVERY)
        store.restraints.set_epoch(0, [first], {first: "liar: no kernel"})
        result = run_campaign(store, config, registry, Silent(), tmp_path)
        assert store.restraints.settings_in(1)["refused"] == (first,)
    assert result.refused == {first: "liar: no kernel"} and result.summary.refused == 1
