"""What is installed from a wheel is what stands in the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = {"nnfuzz": "nnfuzz", "opspecs": "nnfuzz/opspecs", "backends": "nnfuzz/backends"}
UNSHIPPED = (
    ".git",
    ".venv",
    "__pycache__",
    "*.egg-info",
    "build",
    "dist",
    "site",
    "htmlcov",
    "nnfuzz-out",
)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """(source distribution, wheel made of it) of a copy of the checkout."""
    pytest.importorskip("build")
    made = tmp_path_factory.mktemp("made")
    copy = made / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*UNSHIPPED, ".*_cache"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", made, copy]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(made.glob("*.tar.gz")), next(made.glob("*.whl"))


def installed() -> set[str]:
    """Where every file of the packages belongs in a wheel."""
    return {
        f"{place}/{file.relative_to(ROOT / top)}"
        for top, place in PLACES.items()
        for file in (ROOT / top).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages(distributions):
    held = {
        name for name in zipfile.ZipFile(distributions[1]).namelist() if ".dist-info" not in name
    }
    assert held == installed()
    assert {"nnfuzz/py.typed", "nnfuzz/opspecs/motifs/__init__.py"} <= held


@pytest.mark.slow
def test_the_wheel_tells_licence_and_entry_points(distributions):
    wheel = zipfile.ZipFile(distributions[1])
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    text = wheel.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text and "Author: The nnfuzz developers" in text
    points = wheel.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert "nnfuzz.opspecs" in points and "nnfuzz.cli.main:main" in points
    assert wheel.read(metadata.replace("METADATA", "licenses/LICENSE"))


@pytest.mark.slow
def test_the_source_distribution_can_test_itself(distributions):
    with tarfile.open(distributions[0]) as archive:
        held = {Path(name).relative_to(Path(name).parts[0]) for name in archive.getnames()}
    for needed in ("LICENSE", "setup.py", "docs/graph.svg", "scripts/test", ".ci/run"):
        assert Path(needed) in held, needed
    tests = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")}
    assert tests <= held
