"""Python of docs and examples is strictly typed; files that pages embed are as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
EMBEDDED = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
MYPY = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def give_nnfuzz(folder: Path) -> None:
    """The packages as they are installed: nnfuzz with opspecs and backends inside."""
    (folder / "nnfuzz").mkdir(parents=True)
    for path in [*(ROOT / "nnfuzz").iterdir(), ROOT / "opspecs", ROOT / "backends"]:
        (folder / "nnfuzz" / path.name).symlink_to(path)


@pytest.mark.slow
def test_every_example_and_block_passes_mypy_strict(tmp_path):
    give_nnfuzz(tmp_path / "site")
    files = [*(ROOT / "examples").glob("*.py"), ROOT / "examples/plugin_package/nnfuzz_toyc"]
    for page in PAGES:
        for i, block in enumerate(blocks(page)):
            files.append(tmp_path / f"{page.stem}_{i}.py")
            files[-1].write_text(block)
    assert len(files) > 20
    paths = [tmp_path / "site", ROOT / "examples" / "plugin_package"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY, f"--cache-dir={tmp_path / 'cache'}", *files],
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_embedded_files_are_as_they_stand():
    found = [file for page in PAGES for file in EMBEDDED.findall(page.read_text())]
    assert len(found) >= 3
    for name, text in found:
        assert text == (ROOT / name).read_text(), name


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "infer_input_types" in (tmp_path / "reference/operators/index.html").read_text()


def test_no_page_includes_another_file():
    assert [page.name for page in PAGES if "--8<--" in page.read_text()] == []
