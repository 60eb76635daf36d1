"""A campaign on a real Ray cluster of three nodes on this machine, two of which are lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.records.config import ConfigError
from nnfuzz.store.store import Store
from scripts.campaigns import contents
from scripts.torment.chaos import lanes_on_nodes

TESTS = 900


class Notes(Silent):
    """Does the next of some acts whenever lanes of both other nodes have joined."""

    def __init__(self, *acts) -> None:
        self.lines, self.handlers, self._acts = [], set(), [*acts]

    def note(self, text):
        self.lines.append(text)
        self.handlers.add(signal.getsignal(signal.SIGTERM))
        if text.startswith("2 lanes") and self._acts:
            threading.Thread(target=self._acts.pop(0), daemon=True).start()


def signalled(number) -> None:
    """Sends a signal to one of the lanes on nodes."""
    time.sleep(1)
    os.kill(lanes_on_nodes()[0], number)


def run(folder: Path, observer=None, **more):
    config, registry = drive.settings(TESTS, "failing", "hostile", **more)
    with Store.create(folder, as_json(config)) as store:
        cache = folder / "cache"
        return run_campaign(store, config, registry, observer or Silent(), cache)


@pytest.mark.slow
def test_lanes_and_nodes_that_are_lost_lose_nothing(tmp_path, monkeypatch):
    """A lane that dies is replaced, as is one that is silent; then both nodes are lost."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from nnfuzz.campaign import on_ray

    monkeypatch.setattr(on_ray, "SILENT_SECONDS", 3.0)
    monkeypatch.setattr(on_ray, "LOOK_SECONDS", 0.5)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    (tmp_path / "onnx.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)

    def lose():
        for node in nodes:
            cluster.remove_node(node, allow_graceful=False)

    notes = Notes(*(partial(signalled, n) for n in (signal.SIGKILL, signal.SIGSTOP)), lose)
    try:
        run(tmp_path / "spread", notes, ray=cluster.address)
    finally:
        cluster.shutdown()
    assert notes.lines.count("2 lanes on other nodes") == 3 and not cluster.worker_nodes
    assert notes.handlers == {signal.getsignal(signal.SIGTERM)} and not (tmp_path / "ran").exists()
    run(tmp_path / "alone")
    assert contents(tmp_path / "spread") == contents(tmp_path / "alone")
    assert len(contents(tmp_path / "alone")["tests"]) == TESTS


@pytest.mark.parametrize("port", ["9", "x", "99999999"])
def test_an_address_without_a_cluster_is_named(port, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=rf"no Ray cluster at 127\.0\.0\.1:{port}: "):
        run(tmp_path / "campaign", ray=f"127.0.0.1:{port}")


def test_without_ray_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "nnfuzz.campaign.on_ray", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'nnfuzz\[ray\]'"):
        run(tmp_path / "campaign", ray="auto")
