"""Which plug-ins of a folder may run, and what is advised about the others."""

import sys
from pathlib import Path

import pytest

from nnfuzz.cli.consent import Consent, _remembered, remember


@pytest.fixture(autouse=True)
def _forgetful(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import helper_of_mine\n")
    (tmp_path / "helper_of_mine.py").write_text("x = 1\n")
    return file


def copied(plugin, folder):
    folder.mkdir()
    for file in plugin.parent.glob("*.py"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / plugin.name


def test_a_copy_of_what_was_used_before_may_run(plugin, tmp_path):
    copy = copied(plugin, tmp_path / "f")
    assert Consent(tmp_path)(str(copy)) == ""
    remember([plugin])
    plugin.unlink()
    assert Consent(tmp_path)(str(copy)) == str(copy)


def test_a_copy_beside_another_helper_is_another_program(plugin, tmp_path):
    copy = copied(plugin, tmp_path / "f")
    remember([plugin])
    (copy.parent / "helper_of_mine.py").write_text("evil = 1\n")
    assert Consent(tmp_path)(str(copy)) == ""


def test_a_given_plugin_replaces_the_one_of_its_name(plugin, tmp_path):
    consent = Consent(tmp_path, [plugin])
    assert consent("/gone/mine.py") == str(plugin) and not consent.refused


def test_a_path_that_is_no_file_is_neither_kept_nor_advised(tmp_path):
    remember([tmp_path / "missing.py"])
    assert _remembered() == set()
    consent = Consent(tmp_path)
    assert consent(str(tmp_path / "missing.py")) == ""
    message = str(consent.error())
    assert "which is not there: say where missing.py is now, with --plugin FILE" in message


def test_a_campaign_requires_its_plugins_where_they_are(plugin, tmp_path):
    Consent(tmp_path, [plugin]).require([str(plugin)])


def test_a_module_that_only_the_working_directory_has_is_found_behind_all_others(
    plugin, monkeypatch
):
    monkeypatch.chdir(plugin.parent)
    before = [*sys.path]
    monkeypatch.setattr(sys, "path", [*before])
    remember([plugin, Path("json")])
    assert sys.path == before
    remember([Path("mine")])
    assert sys.path == [*before, str(plugin.parent)]
