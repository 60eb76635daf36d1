"""The option --ray."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import drive
import pytest

import nnfuzz.cluster
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.cluster import Work, fuzz_on_cluster
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.parts import segments
from nnfuzz.store.store import Store
from tests.command import nnfuzz as command


@pytest.mark.parametrize(
    "given, fix",
    [
        (("--shard", "1/2", "--seed", "1"), "leave out --shard"),
        (("--resume", "--out", "nowhere"), "is of no campaign with --ray"),
        (("--resume",), "needs --out"),
    ],
)
def test_a_cluster_is_asked_for_in_a_way_that_makes_sense(given, fix, tmp_path):
    done = command("fuzz", "-b", "onnxruntime", "--tests", "1", "--ray", *given, cwd=tmp_path)
    assert done.returncode == 2 and fix in done.stderr


def test_without_ray_it_is_said_how_to_get_it(tmp_path):
    program = "import sys; sys.modules['ray'] = None\nfrom nnfuzz.cli.main import main\nmain()"
    fuzz = [sys.executable, "-c", program, "fuzz", "-b", "onnxruntime", "--tests", "1", "--ray"]
    done = subprocess.run(fuzz, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'nnfuzz[ray]'" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_what_the_nodes_have_published_is_the_result(tmp_path, monkeypatch):
    """With a stand-in for Ray's part, which publishes one part of a campaign."""
    config, registry = drive.settings(4, "fusing", "liar")

    def run(published, settings, work, on_gpu, observer, stopped):
        share = published.share
        with Store.create(tmp_path / "part", as_json(config)) as store:
            run_campaign(store, config, registry, observer, SupportCache(tmp_path / "cache"))
        segments.publish(tmp_path / "part", share)

    fake = SimpleNamespace(connected=nullcontext, machines=lambda: 1, run=run)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__spec__="found"))
    monkeypatch.setitem(sys.modules, "nnfuzz.cluster.on_ray", fake)
    monkeypatch.setattr(nnfuzz.cluster, "on_ray", fake, raising=False)
    work = Work(tmp_path / "whole")
    result, _ = fuzz_on_cluster(config, registry, work, False, True, "", {})
    assert (result.summary.tests, result.summary.seed) == (4, config.seed)
