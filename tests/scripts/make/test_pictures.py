"""The screenshots of the docs are made of whatever ledger there is."""

from __future__ import annotations

import pytest

from scripts.make import pictures
from tests.bugs.conftest import ledger
from tests.report.browser import CHROMIUM, DRIVER, Browser

__all__ = ["ledger"]


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
def test_a_ledger_has_four_pictures(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "DOCS", tmp_path)
    browser = Browser(tmp_path / "browser")
    try:
        pictures.of_ledger(browser, ledger, tmp_path / "site")
    finally:
        browser.close()
    found = sorted(file.name for file in tmp_path.glob("*.png"))
    assert found == ["ledger.png", "ledger_bug.png", "ledger_narrow.png", "ledger_releases.png"]
