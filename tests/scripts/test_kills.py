"""A campaign whose processes are killed loses nothing and leaves nothing behind; in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kills import PARENT, WORKER, compared, differences

DRIVE = Path(__file__).parents[1] / "campaign" / "drive.py"


def start(folder, resume, env):
    arguments = [str(folder), "120", "exporting", "liar", *(["resume"] if resume else [])]
    return subprocess.Popen(
        [sys.executable, str(DRIVE), *arguments], env=env, stdout=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    return folder, compared(start, folder, kills=8, seed=2, pause=0.3)


def test_nothing_is_lost_and_nothing_left_behind(done):
    _, torment = done
    assert torment.trouble == []
    assert torment.kills[PARENT] and torment.kills[WORKER]
    assert torment.sessions == torment.kills[PARENT] + 1


def test_a_difference_is_told(done):
    folder, _ = done
    for found in (folder / "killed" / "findings").iterdir():
        found.rename(found.with_name("elsewhere"))
        break
    (told,) = differences(folder / "calm", folder / "killed")
    assert told.startswith("folders without a finding")
