"""What has no end, or no measure, costs what its limits say, and no more."""

from __future__ import annotations

import resource
from pathlib import Path

import drive
import numpy as np
import pytest
import stub_producer
from hostile import Misbehave

from nnfuzz.backend.outcome import RunLevels
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.sandbox.events import Death, DeathKind, Limits
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.sandbox.wire import is_one
from nnfuzz.store.store import Store

HOSTILE = Path(__file__).parent.parent / "backend" / "hostile.py"
HUGE = (300 << 20) // 4  # elements


@pytest.fixture
def runner():
    registry = BackendRegistry.discover([HOSTILE])
    with BackendRunner(registry.parse("hostile,memory=2"), registry) as runner:
        yield runner


def test_of_an_output_that_is_much_too_large_only_dtype_and_shape_are_sent(runner):
    inputs = {"x": np.zeros(4, np.float32)}
    model = stub_producer.model("huge execute O0")
    runner.submit(RunLevels(model, inputs, ("O0", "O2"), expected={"y": 16}))
    huge, usual = (outcome.outputs["y"] for outcome in runner.wait())
    assert (huge.dtype, huge.shape) == (np.float32, (HUGE,)) and is_one(huge)
    assert usual.shape == (4,) and not is_one(usual)


def test_huge_outputs_are_mismatches_and_do_not_reach_the_parent(tmp_path):
    config, registry = drive.settings(20, "huge", "hostile,memory=2")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Store.create(tmp_path / "c", as_json(config)) as store:
        cache = tmp_path / "cache"
        result = run_campaign(store, config, registry, Silent(), cache)
    assert result.summary.outcomes["mismatch"] == 2
    assert result.summary.outcomes["ok"] == 38
    assert result.summary.findings == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KB


@pytest.fixture
def sandbox(monkeypatch):
    """256 MiB for a job, of which 64 may stay."""
    monkeypatch.syspath_prepend(str(HOSTILE.parent))
    limits = Limits(seconds=20.0, memory_bytes=256 << 20)
    with Sandbox("hostile:make", limits=limits) as sandbox:
        yield sandbox


def test_a_worker_whose_jobs_leak_is_replaced_and_no_job_is_blamed(sandbox):
    """Each job keeps a quarter of the limit; together they would exceed it many times."""
    pids = [sandbox.call(Misbehave("leak")).value.pid for _ in range(12)]
    assert len(set(pids)) >= 6
    assert sandbox.pid not in pids


def test_memory_of_descendants_counts(sandbox):
    death = sandbox.call(Misbehave("allocate_in_a_child"))
    assert isinstance(death, Death) and death.kind is DeathKind.MEMORY
