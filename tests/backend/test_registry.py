"""Backends are found by name, with the files of plug-ins."""

import subprocess
import sys
from pathlib import Path

import pytest

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import (
    BackendRegistry,
    BackendSpec,
    RegistryError,
    import_plugin,
    labelled,
    namesake,
    plugin_files,
)
from nnfuzz.base.writing import as_json

HERE = Path(__file__).parent
TOY = HERE / "toy_backend.py"


def test_built_in_and_plugged_in_are_found():
    registry = BackendRegistry.discover([TOY])
    assert {"onnxruntime", "tvm", "toy"} <= set(registry.names())
    assert "toy_backend.py" in registry.source("toy")


def test_a_specification_crosses_processes_as_json():
    spec = BackendRegistry.discover([TOY]).parse("toy,fold=no,timeout=2.5")
    back = BackendSpec.from_json(as_json(spec))
    assert back == spec
    assert str(back) == "toy,fold=no,timeout=2.5"
    toy = back.load()
    assert (toy.options.fold, toy.options.timeout) == (False, 2.5)


def test_a_release_is_part_of_a_specification():
    registry = BackendRegistry.discover()
    old, new = (registry.parse(text) for text in ("onnxruntime@1.20.1,timeout=5", "onnxruntime"))
    assert (old.name, old.release, old.options) == ("onnxruntime", "1.20.1", {"timeout": "5"})
    assert BackendSpec.from_json(as_json(old)) == old != new
    assert str(old) == "onnxruntime@1.20.1,timeout=5"
    assert [spec.label for spec in labelled([old, new])] == [
        "onnxruntime@1.20.1,timeout=5",
        "onnxruntime",
    ]
    assert labelled([old])[0].label == "onnxruntime"


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("toy@1.0", OptionError, "does not say which distribution"),
        ("onnxruntime@--index-url", OptionError, "no release: write NAME@1.2.3"),
        ("onnxruntime@1 @ file:///x", OptionError, "no release"),
        ("tvn", RegistryError, "did you mean 'tvm'.*--plugin"),
        ("tvm,taget=llvm", OptionError, "no option 'taget'; did you mean 'target'"),
        ("tvm,target=gpu", OptionError, "'gpu' must be llvm or cuda"),
        ("toy,fold=maybe", OptionError, "must be bool"),
        ("toy,timeout=soon", OptionError, "must be float"),
        ("toy,timeout=-1", OptionError, "option timeout must be more than 0"),
        ("toy,memory=nan", OptionError, "option memory must be more than 0"),
        ("toy,fold", OptionError, "expected key=value"),
        ("toy,fold=1,fold=0", OptionError, "given twice"),
    ],
)
def test_mistakes_are_explained(text, error, complaint):
    with pytest.raises(error, match=complaint):
        BackendRegistry.discover([TOY]).parse(text)


def test_a_name_taken_twice_fails_loudly(tmp_path):
    other = tmp_path / "other.py"
    other.write_text(TOY.read_text())
    with pytest.raises(RegistryError, match=r"'toy' is defined twice: by .*toy_backend.py and by"):
        BackendRegistry.discover([TOY, other])


def test_a_bad_plugin_file_is_named(tmp_path):
    with pytest.raises(RegistryError, match="no such file"):
        BackendRegistry.discover([tmp_path / "absent.py"])
    broken = tmp_path / "broken.py"
    broken.write_text("x = 0\n1 / x")
    with pytest.raises(RegistryError, match=r"ZeroDivisionError: division by zero \(line 2\)"):
        BackendRegistry.discover([broken])
    broken.write_text("def f(:")
    with pytest.raises(RegistryError, match=r"SyntaxError: invalid syntax \(broken.py, line 1\)"):
        BackendRegistry.discover([broken])


def test_a_backend_without_what_it_must_have_is_told(tmp_path):
    file = tmp_path / "unfinished.py"
    head = "from nnfuzz.backend.contract import Backend\nclass Base(Backend):\n"
    begun = head + "    def load(self, model): return model\n"
    file.write_text(begun)
    with pytest.raises(
        RegistryError, match=r"Base \(plug-in .*unfinished.py\) lacks name, levels, build\(\), v"
    ):
        BackendRegistry.discover([file])
    rest = "    versions = build = lambda self, *rest: {}\n"
    whole = tmp_path / "whole.py"
    whole.write_text(f"{begun}class One(Base):\n    name, levels = 'one', ('O0',)\n{rest}")
    assert BackendRegistry.discover([whole]).get("one").__name__ == "One"


def test_listing_imports_no_compiler():
    script = (
        "import sys\n"
        "from nnfuzz.backend.registry import BackendRegistry\n"
        "from nnfuzz.backend.runner import BackendRunner\n"
        "registry = BackendRegistry.discover()\n"
        "assert [registry.get(name).missing() for name in registry.names()]\n"
        "heavy = {'tvm', 'torch', 'onnxruntime', 'onnx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_plugin_file_imports_modules_beside_it_which_hide_no_package(tmp_path):
    (tmp_path / "beside_a_plugin.py").write_text("NUMBER = 7\n")
    (tmp_path / "wave.py").write_text("raise RuntimeError('hides a module of Python')\n")
    plugin = tmp_path / "own.py"
    plugin.write_text("import wave\nfrom beside_a_plugin import NUMBER\n")
    before = list(sys.path)
    assert import_plugin(plugin).NUMBER == 7
    assert sys.path == before


# What a finding takes along of plug-ins, and what it has to leave where it is.


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
