"""Which plug-ins of a folder may run, and what is advised about the others."""

import pytest

from nnfuzz.cli.consent import Consent


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import helper_of_mine\n")
    (tmp_path / "helper_of_mine.py").write_text("x = 1\n")
    return file


def test_a_copy_of_what_a_folder_names_runs_only_if_it_is_given(plugin, tmp_path):
    assert Consent(tmp_path)(str(plugin)) == ""
    assert Consent(tmp_path, [plugin])(str(plugin)) == str(plugin)


def test_a_given_plugin_replaces_the_one_of_its_name(plugin, tmp_path):
    consent = Consent(tmp_path, [plugin])
    assert consent("/gone/mine.py") == str(plugin) and not consent.refused


def test_a_path_that_is_no_file_is_not_advised(tmp_path):
    consent = Consent(tmp_path)
    assert consent(str(tmp_path / "missing.py")) == ""
    message = str(consent.error())
    assert "which is not there: say where missing.py is now, with --plugin FILE" in message


def test_a_campaign_requires_its_plugins_where_they_are(plugin, tmp_path):
    Consent(tmp_path, [plugin]).require([str(plugin)])
