"""What a finding takes along of plug-ins, and what it has to leave where it is."""

import pytest

from nnfuzz.backend.plugin_files import namesake, plugin_files


@pytest.fixture
def write(tmp_path):
    def make(name, text="x = 1\n"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    return make


def test_a_plugin_comes_with_the_modules_that_lie_beside_it(write):
    plugin = write("mine.py", "import os, numpy\ndef f():\n    from helper_of_mine import x\n")
    write("helper_of_mine.py", "import deeper_of_mine, nowhere_at_all\n")
    write("deeper_of_mine.py", "import mine\n")
    found = plugin_files([plugin, plugin])
    assert found.names == {plugin: "mine.py"} and found.modules == ()
    assert set(found.files) == {"mine.py", "helper_of_mine.py", "deeper_of_mine.py"}


def test_a_package_beside_it_is_named_and_not_copied(write):
    plugin = write("mine.py", "from package_of_mine.inner import x\n")
    write("package_of_mine/__init__.py")
    found = plugin_files([plugin])
    assert (set(found.files), found.modules) == ({"mine.py"}, ("package_of_mine",))


def test_a_module_of_a_program_is_copied_as_a_file(write, tmp_path, monkeypatch):
    write("module_of_mine.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugin_files(["module_of_mine"]).names == {"module_of_mine": "module_of_mine.py"}
    installed = plugin_files(["tests.library.off"])
    assert installed.names == {"tests.library.off": "tests.library.off"}
    assert (installed.files, installed.modules) == ({}, ("tests.library.off",))


def test_packages_of_another_environment_are_installed(write, tmp_path, monkeypatch):
    other = tmp_path / "of others"
    (other / "library_of_others").mkdir(parents=True)
    (other / "library_of_others-1.dist-info").mkdir()
    (other / "library_of_others" / "__init__.py").touch()
    monkeypatch.syspath_prepend(other)
    plugin = write("mine.py", "import library_of_others\n")
    assert plugin_files([plugin]).modules == ()


@pytest.mark.parametrize("name", ["numpy.py", "json.py", "repro.py"])
def test_what_would_hide_something_else_stays_where_it_is(name, write):
    plugin = write(name)
    found = plugin_files([plugin], taken=["repro.py"])
    assert (found.names, found.files) == ({plugin: plugin}, {})


def test_of_two_plugins_of_one_name_the_second_stays(write):
    one, other = write("a/mine.py"), write("b/mine.py", "y = 2\n")
    assert plugin_files([one, other]).names == {one: "mine.py", other: other}


def test_a_file_that_is_gone_is_known_by_its_name(tmp_path):
    gone = str(tmp_path / "gone.py")
    assert plugin_files([gone]).names == {gone: "gone.py"}


def test_a_plugin_stands_for_any_of_its_name():
    given = namesake(["/new/mine.py", "package.module"])
    assert given("/old/mine.py") == given("mine") == "/new/mine.py"
    assert given("package.module") == "package.module" and given("/old/other.py") == ""
