"""The page that follows one test names files that exist, and none of them twice."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rooms" / "one_test.md"


def test_the_walk_names_each_file_once():
    named = re.findall(r"`(nnfuzz/[\w/]+\.py)`", PAGE.read_text())
    assert 10 < len(named) <= 16 and len(named) == len(set(named))
    assert all((ROOT / name).is_file() for name in named)
