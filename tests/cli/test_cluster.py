"""The option --ray."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.command import nnfuzz


@pytest.mark.parametrize(
    "given, fix",
    [
        (("--shard", "1/2", "--seed", "1"), "leave out --shard"),
        (("--resume", "--out", "nowhere"), "is of no campaign with --ray"),
        (("--resume",), "needs --out"),
    ],
)
def test_a_cluster_is_asked_for_in_a_way_that_makes_sense(given, fix, tmp_path):
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--tests", "1", "--ray", *given, cwd=tmp_path)
    assert done.returncode == 2 and fix in done.stderr


def test_without_ray_it_is_said_how_to_get_it(tmp_path):
    program = "import sys; sys.modules['ray'] = None\nfrom nnfuzz.cli.main import main\nmain()"
    fuzz = [sys.executable, "-c", program, "fuzz", "-b", "onnxruntime", "--tests", "1", "--ray"]
    done = subprocess.run(fuzz, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'nnfuzz[ray]'" in done.stderr
    assert not [*tmp_path.iterdir()]
