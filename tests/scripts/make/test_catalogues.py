"""The generated pages are those that the code of today writes."""

from __future__ import annotations

import pytest

from scripts.make.catalogues import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_one_that_is_generated(name):
    message = "run .venv/bin/python -m scripts.make.catalogues"
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), message
