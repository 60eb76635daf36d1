"""A real cluster on this machine, if Ray is here: minutes, so it is slow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendSpec
from nnfuzz.cli.progress import Silent
from nnfuzz.parts.leases import Leases
from nnfuzz.records.config import CampaignConfig

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not here")
def test_a_cluster_makes_what_one_process_makes(tmp_path):
    script = [sys.executable, "-m", "scripts.torment.cluster", "--tests", "60"]
    fuzz = ["--exporter", "direct", "--nodes", "3", "--set", "reduce=no", "--set", "probe=1s"]
    done = subprocess.run(
        [*script, "--nodes", "2", "--out", str(tmp_path), "--", *fuzz],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests: the same" in done.stdout and "signatures: the same" in done.stdout


class Fakes:
    """A cluster whose nodes do nothing; its coordinator is in this process."""

    def __init__(self, leases):
        self._leases, self.running, self.staffed = leases, {}, 0

    def staff(self):
        self.staffed += 1
        self.running = {"result": "place"}

    def ended(self):
        return []

    def state(self, closes=False, seconds=0.0):
        from nnfuzz.cluster.on_ray import ClusterState

        self._leases.spend(seconds)
        self._leases.closed |= closes
        over = self._leases.over
        if over:
            self.running = {}
        return ClusterState(0, 0, over, {}, {}, (), 1, self._leases.spent)

    def close(self): ...


def test_the_time_of_earlier_sessions_counts(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from nnfuzz.cluster import on_ray

    now = 100.0
    monkeypatch.setattr(on_ray.time, "monotonic", lambda: now)
    monkeypatch.setattr(on_ray, "places", lambda on_gpu: [on_ray.Machine("n1", "host", 1, 0.0)])
    config = CampaignConfig(backends=(BackendSpec("toy"),), seed=1, time_limit=3600.0)

    def passes(*seen):
        nonlocal now
        now += 600.0

    def session(limit):
        nonlocal now
        now += 1e6  # until somebody goes on
        before = now
        with Leases(tmp_path / "leases.sqlite") as leases:
            fakes = Fakes(leases)
            monkeypatch.setattr(on_ray, "Cluster", lambda *given: fakes)
            on_ray.run(
                replace(config, time_limit=limit), {}, tmp_path, False, Silent(), watch=passes
            )
        return now - before, fakes.staffed > 0

    assert session(3600.0) == (4200.0, True)
    assert session(7200.0) == (4200.0, True)
    assert session(7200.0) == (600.0, False)


def test_a_gpu_is_asked_for_where_a_compiler_needs_one(monkeypatch):
    pytest.importorskip("ray")
    from nnfuzz.cluster import on_ray

    def node(name, alive=True, **resources):
        return {
            "NodeID": name, "Alive": alive, "NodeManagerHostname": name, "Resources": resources
        }  # fmt: skip

    gib = float(1 << 30)
    nodes = [
        node("head", memory=9 * gib),
        node("plain", CPU=4.0, memory=3 * gib),
        node("gpu", CPU=2.0, memory=9 * gib, GPU=1.0),
        node("gone", alive=False, CPU=2.0, memory=9 * gib, GPU=1.0),
    ]
    monkeypatch.setattr(on_ray.ray, "nodes", lambda: nodes)
    shown = [[(p.name, p.cores, p.gpus) for p in on_ray.places(gpu)] for gpu in (False, True)]
    assert shown == [[("plain", 3, 0), ("gpu", 2, 1.0)], [("gpu", 2, 1.0)]]


def test_a_coordinator_without_room_answers_later(tmp_path):
    pytest.importorskip("ray")
    from nnfuzz.cluster.on_ray import CoordinatorActor

    place = tmp_path / "later"
    coordinator = CoordinatorActor(str(place / "leases.sqlite"), 90, 256)
    with pytest.raises(OSError, match="the coordinator's file"):
        coordinator.state(False, 0.0)
    place.mkdir()
    assert coordinator.state(False, 0.0).kept == 0
