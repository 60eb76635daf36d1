"""What is generated follows from the seed and the settings, and from nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.records.schedule import begins
from nnfuzz.store.store import Store

TESTS = 130


def campaign(folder, tests=TESTS, stop=None, **more):
    """Runs or goes on with a campaign that avoids an edge by and by; returns what it has made.

    stop: of tests after which it is interrupted.
    """
    settings = {"unrestrained": 0.2, "throttle": 5, "probe": True, **more}
    config, registry = drive.settings(tests, "refused", "liar", **settings)
    start = Store.open if folder.exists() else lambda path: Store.create(path, as_json(config))
    with start(folder) as store:
        cache = folder / "cache"

        def stopped():
            return stop is not None and store.tests.count() >= stop

        run_campaign(store, config, registry, Silent(), cache, stopped)
        avoided = [store.restraints.settings_in(epoch)["avoid"] for epoch in range(6)]
        tests = [(t.index, t.status, t.digest, t.items) for t in store.tests.rows()]
        findings = {row.signature: row.test for row in store.signatures.rows()}
        return tests, avoided, findings


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "c"
    return folder, campaign(folder)


def test_nothing_is_avoided_before_the_third_epoch(alone):
    _, (tests, avoided, findings) = alone
    assert [len(rows) for rows in avoided[:2]] == [0, 0]
    assert avoided[2] == ("Relu->Conv(float32)",)
    assert len(tests) == TESTS > begins(4) and len(findings) == 2


def test_workers_do_not_matter(alone, tmp_path):
    assert campaign(tmp_path / "c", workers=3) == alone[1]


@pytest.mark.parametrize("stop", [7, pytest.param(40, marks=pytest.mark.slow), 90])
def test_an_interruption_does_not_matter(alone, tmp_path, stop):
    folder = tmp_path / "c"
    tests, *_ = campaign(folder, stop=stop)
    assert stop <= len(tests) < TESTS
    assert campaign(folder) == alone[1]
