"""A campaign on a real Ray cluster of three nodes on this machine, two of which are lost."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.records.config import ConfigError
from nnfuzz.store.store import FILE, Store

TESTS = 600
TABLES = {
    "tests": "idx, status, epoch, outcomes, digest, exporter, items, failures",
    "findings": "signature, test, kind, stage, level, title, party, place, size",
    "occurrences": "signature, test, bucket, kind",
}


class Notes(Silent):
    """Loses a node as soon as lanes of the others have joined."""

    def __init__(self, lose) -> None:
        self.lines, self._lose = [], lose

    def note(self, text):
        self.lines.append(text)
        if text.startswith("2 lanes"):
            threading.Thread(target=self._lose, daemon=True).start()


def run(folder: Path, observer=None, **more):
    config, registry = drive.settings(TESTS, "failing", "hostile", **more)
    with Store.create(folder, as_json(config)) as store:
        cache = SupportCache(folder / "cache")
        return run_campaign(store, config, registry, observer or Silent(), cache)


def rows(folder: Path) -> dict[str, list[object]]:
    database = sqlite3.connect(folder / FILE)
    return {
        table: sorted(database.execute(f"SELECT {columns} FROM {table}").fetchall())
        for table, columns in TABLES.items()
    }


@pytest.mark.slow
def test_nodes_that_are_lost_lose_nothing(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]

    def lose():
        for node in nodes:
            time.sleep(1)
            cluster.remove_node(node, allow_graceful=False)

    notes = Notes(lose)
    try:
        run(tmp_path / "spread", notes, ray=cluster.address)
    finally:
        cluster.shutdown()
    assert notes.lines.count("2 lanes on other nodes") == 1 and not cluster.worker_nodes
    run(tmp_path / "alone")
    assert rows(tmp_path / "spread") == rows(tmp_path / "alone")
    assert len(rows(tmp_path / "alone")["tests"]) == TESTS


def test_an_address_without_a_cluster_is_named(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"no Ray cluster at 127\.0\.0\.1:9: "):
        run(tmp_path / "campaign", ray="127.0.0.1:9")
