"""What is generated follows from the seed and the settings, and from nothing else."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.records.config import ConfigError
from nnfuzz.records.schedule import begins, epoch_of
from nnfuzz.store.store import Store

TESTS, PARTS = 130, 3


def campaign(folder, tests=TESTS, stop=None, cache=None, start_line=None, **more):
    """Runs or goes on with a campaign that avoids an edge by and by; returns what it has made.

    stop: of tests after which it is interrupted. start_line: where parts wait for each other.
    """
    settings = {"unrestrained": 0.2, "throttle": 5, "probe_seconds": 10.0, **more}
    config, registry = drive.settings(tests, "fusing", "liar", **settings)
    start = Store.open if folder.exists() else lambda path: Store.create(path, as_json(config))
    with start(folder) as store:
        cache = SupportCache(cache or folder / "cache")
        waits = [start_line.wait] if start_line else []

        def stopped():
            while waits:
                waits.pop()()
            return stop is not None and store.tests.count() >= stop

        result = run_campaign(store, config, registry, Silent(), cache, stopped)
        avoided = [store.restraints.avoided_in(epoch) for epoch in range(6)]
        tests = [(t.index, t.status, t.digest, t.items) for t in store.tests.rows()]
        findings = {row.signature: row.test for row in store.signatures.rows()}
        probes = store.connection.execute("SELECT * FROM probes").fetchall()
        return (tests, avoided, findings, probes), result.summary.support_tables


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "c"
    made, used = campaign(folder)
    assert used == ()
    return folder, made


def test_nothing_is_avoided_before_the_third_epoch(alone):
    _, (tests, avoided, findings, probes) = alone
    assert [len(rows) for rows in avoided[:2]] == [0, 0]
    assert [row.item for row in avoided[2]] == ["Relu->Conv(float32)"]
    assert len(tests) == TESTS > begins(4) and len(findings) == 2 and probes


def test_probes_are_a_tenth_of_the_tests_and_beside_them(alone):
    _, (tests, _, _, probes) = alone
    indexes = {before for _, _, _, before, _ in probes}
    assert 0 < len(probes) <= len(tests) // 10
    assert min(indexes) == begins(1)  # the first tests wait for none


def test_workers_do_not_matter(alone, tmp_path):
    assert campaign(tmp_path / "c", workers=3, producers=2)[0] == alone[1]


def test_the_cache_does_not_matter(alone, tmp_path):
    folder, made = alone
    (table,) = (folder / "cache").iterdir()
    again, used = campaign(tmp_path / "c", cache=folder / "cache")
    assert again == made
    assert used == ({"path": str(table), "entries": len(made[-1])},)


@pytest.mark.parametrize("stop", [7, pytest.param(40, marks=pytest.mark.slow), 90])
def test_an_interruption_does_not_matter(alone, tmp_path, stop):
    folder = tmp_path / "c"
    (tests, *_), _ = campaign(folder, stop=stop)
    assert stop <= len(tests) < TESTS
    assert campaign(folder)[0] == alone[1]


def in_parts(folder, **more):
    """What each part has made; they run at the same time."""
    more |= {"share": str(folder / "share"), "start_line": Barrier(PARTS, timeout=120)}
    with ThreadPoolExecutor(PARTS) as pool:
        made = [
            pool.submit(campaign, folder / str(k), shard=f"{k}/{PARTS}", **more)
            for k in range(1, PARTS + 1)
        ]
        return [future.result()[0] for future in made]


def all_of(parts):
    """Their tests in order; equal ones that two parts have made at the same time count once."""
    return sorted({test for part in parts for test in part[0]})


def test_parts_make_the_test_cases_of_one_process(alone, tmp_path):
    tests, avoided, findings, probes = alone[1]
    first = in_parts(tmp_path, stop=10)  # each is interrupted, and goes on
    parts = in_parts(tmp_path)
    assert all_of(parts) == tests and len(tests) == TESTS > len(all_of(first))
    assert all(len(part[0]) < TESTS for part in parts)
    for made, own, _, probed in parts:
        last = max(epoch_of(index) for index, *_ in made)
        assert own[: last + 1] == avoided[: last + 1]
        assert {*probed} <= {*probes}  # an interrupted part may lead first
    assert set().union(*(part[2] for part in parts)) == findings.keys()
    assert probes in [part[3] for part in parts]


def test_another_campaign_is_not_mixed_in(tmp_path):
    more = {"share": str(tmp_path / "share"), "tests": 4, "probe_seconds": 0.0}
    campaign(tmp_path / "a", shard="1/1000", **more)
    with pytest.raises(ConfigError, match="another number of parts"):
        campaign(tmp_path / "b", shard="2/3", **more)
    with pytest.raises(ConfigError, match="another settings"):
        campaign(tmp_path / "c", shard="2/1000", throttle=7, **more)
