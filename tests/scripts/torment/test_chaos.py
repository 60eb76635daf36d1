"""A campaign that meets faults loses nothing and leaves nothing behind; in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nnfuzz.store.store import Store
from scripts.torment.chaos import PARENT, SERVER, WORKER, compared, differences

WEIGHTS = {PARENT: 1, WORKER: 4, SERVER: 2}
DRIVE = Path(__file__).parents[2] / "campaign" / "drive.py"


def start(folder, resume, env, settings=("120", "exporting", "liar")):
    arguments = [str(folder), *settings, *(["resume"] if resume else [])]
    return subprocess.Popen(
        [sys.executable, str(DRIVE), *arguments], env=env, stdout=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chaos")
    return folder, compared(start, folder, 7, seed=2, pause=0.3, weights=WEIGHTS)


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_left_behind(done):
    _, torment = done
    assert torment.trouble == []
    assert torment.faults.total() > 2 and len(torment.faults) > 1
    assert torment.sessions >= torment.faults[PARENT] + 1


@pytest.mark.slow
def test_a_byte_that_differs_is_told(done):
    folder, _ = done
    with Store.open(folder / "tormented", write=False) as store:
        (row, *_) = store.signatures.rows()
    inputs = folder / "tormented" / row.folder / "inputs.npz"
    before = inputs.read_bytes()
    inputs.write_bytes(before + b"?")
    (told,) = differences(folder / "calm", folder / "tormented")
    assert told.startswith(f"files of {row.signature}") and told.endswith("['inputs.npz']")
    inputs.write_bytes(before)


@pytest.mark.slow
def test_a_difference_is_told(done):
    folder, _ = done
    for found in (folder / "tormented" / "findings").iterdir():
        found.rename(found.with_name("elsewhere"))
        break
    (told,) = differences(folder / "calm", folder / "tormented")
    assert told.startswith("folders without a finding")
