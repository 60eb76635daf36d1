"""Findings that are left at the end of a campaign."""

from __future__ import annotations

from dataclasses import replace

import drive
import pytest
from stub_producer import chain
from stub_reducer import cause_of

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.reducing import reduce_campaign
from nnfuzz.campaign.session import run_campaign
from nnfuzz.store.store import Store
from tests.campaign.test_reducing import Notes, run

OWN = ["Relu", "Conv"]


@pytest.mark.parametrize(
    ("explained", "by"), [pytest.param(0, OWN, marks=pytest.mark.slow), (1, OWN), (1, ["Tanh"])]
)
def test_the_first_test_stands_whichever_was_reduced_first(tmp_path, explained, by, stubbed):
    """Of two findings with one cause, either may have been explained by the other, or by a second
    bug of its model.
    """
    config, registry = drive.settings(5, "fusing", "liar", "Reducing", throttle=0)
    with Store.create(tmp_path / "c", as_json(config)) as store:
        run_campaign(store, config, registry, Notes(), tmp_path)
        first, *_ = rows = sorted(store.signatures.rows(), key=lambda row: row.index)
        done = store.reductions.rows()[rows[explained].signature]
        done = replace(done, cause=cause_of(*by), graph=chain(by))
        store.reductions.add(replace(done, explained=True, title="explained"))
        (found,) = reduce_campaign(store, lambda text: None, 1, 10)
    assert found.signature == first.signature and found.folder.startswith("findings/")
    assert found.title == "wrong ['Relu', 'Conv']"
    assert len(found.duplicates) == 1


def test_what_could_not_be_reduced_is_tried_again_afterwards(tmp_path, stubbed):
    run(tmp_path / "c", 10, "fusing", "Refusing")
    with Store.open(tmp_path / "c") as store:
        (found,) = reduce_campaign(store, lambda text: None, 1, 10)
        assert found.cause == cause_of("Relu", "Conv")
