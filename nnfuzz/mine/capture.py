"""Runs Python files that build ONNX models, and keeps the models. Only inside of a worker.

What such a file imports and what is not installed is replaced by a stand-in, since a compiler's
tests build their models before they call the compiler.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

from nnfuzz.base.untrusted import read_bytes
from nnfuzz.mine.jobs import MOST_MODELS, ScriptModels
from nnfuzz.mine.sources import files_below, source_text
from nnfuzz.sandbox.exceptions import described_error

MOST_BYTES = 4 << 20
"""Bytes of a model that is kept; patterns need no weights."""
RECORDED = (
    "onnx.helper.make_model",
    "onnx.checker.check_model",
    "onnx.save",
    "onnx.save_model",
    "onnx.parser.parse_model",
    "onnx.shape_inference.infer_shapes",
    "onnxruntime.InferenceSession",
    "onnx_ir.serde.serialize_model",
    "onnx_ir.serde.deserialize_model",
    "onnx_ir.to_proto",
    "onnx_ir.from_proto",
    "onnx_ir.from_onnx_text",
    "onnxscript.OnnxFunction.to_model_proto",
)
"""Functions whose arguments or results are models; those of packages that the script does not name
are left alone."""


def captured(script: Path, out: Path, paths: Sequence[str] = ()) -> ScriptModels:
    """Runs a script, or its tests if it has some, and writes the models that pass through RECORDED
    to a folder.

    An error of the script ends it, not the capture.
    """
    models, here = _Models(out), os.getpid()
    problem = ""
    warnings.simplefilter("ignore")
    sys.path[:] = [str(script.parent), *sys.path, *paths]
    sys.meta_path.append(_StandIns())
    os.chdir(out)
    with contextlib.ExitStack() as stack:
        text = source_text(script)
        for name in _named_in(text):
            _record(stack, name, models)
        try:
            if _has_tests(text):
                problem = _run_tests(script)
            else:
                sys.argv = [str(script)]
                runpy.run_path(str(script), run_name="__main__")
        except SystemExit:
            pass
        except BaseException as error:  # of any kind, since a script may raise what it likes
            problem = _line(error)
    if os.getpid() != here:
        os._exit(0)  # a process that the script has forked, and that came back from it
    for file in files_below(out, []):  # what it saved by other ways
        with contextlib.suppress(Exception):
            if file.suffix == ".onnx" and file.parent != models.folder:
                models.keep(read_bytes(file, MOST_BYTES))
    return ScriptModels(models.count, problem)


def backend_tests(out: Path) -> int:
    """Writes the models that the backend tests of onnx make; returns their number."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    models = _Models(out)
    for case in collect_testcases(None):
        if case.model is not None:
            models.keep(case.model.SerializeToString(deterministic=True))
    return models.count


class _Models:
    """A folder of distinct models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "models"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.count = 0
        self._known: set[bytes] = set()

    def keep(self, data: bytes) -> None:
        if (
            data
            and data not in self._known
            and len(data) <= MOST_BYTES
            and self.count < MOST_MODELS
        ):
            self._known.add(data)
            (self.folder / f"{self.count:05}.onnx").write_bytes(data)
            self.count += 1

    def look(self, value: Any) -> None:
        """Keeps a value if it is a model, in whatever form."""
        import onnx

        with contextlib.suppress(Exception):
            if isinstance(value, onnx.ModelProto):
                self.keep(value.SerializeToString(deterministic=True))
            elif isinstance(value, bytes):
                model = onnx.load_model_from_string(value)
                self.keep(value if model.graph.node else b"")
            elif type(value).__module__.startswith("onnx_ir") and type(value).__name__ == "Model":
                self.look(_original(sys.modules["onnx_ir"].serde.serialize_model)(value))


def _original(function: Callable[..., Any]) -> Callable[..., Any]:
    return getattr(function, "original", function)


def _named_in(text: str) -> Iterator[str]:
    """The functions to record that a script can reach: of onnx, and of packages that it names."""
    for name in RECORDED:
        package = name.partition(".")[0]
        reachable = package in text or (package == "onnx_ir" and "onnxscript" in text)
        if package == "onnx" or (reachable and importlib.util.find_spec(package)):
            yield name


def _record(stack: contextlib.ExitStack, name: str, models: _Models) -> None:
    """Has a function hand its arguments and its result to `models`, if there is one of the name."""
    with contextlib.suppress(Exception):
        owner = name.rpartition(".")[0]
        importlib.import_module(name.partition(".")[0])
        with contextlib.suppress(ImportError):
            importlib.import_module(owner)
        target = patch(name)
        original = target.get_original()[0]
        stack.enter_context(patch(name, _recording(original, models)))


def _recording(original: Callable[..., Any], models: _Models) -> Callable[..., Any]:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            models.look(value)
        result = original(*args, **kwargs)
        models.look(result)
        return result

    recorded.original = original  # type: ignore[attr-defined]
    return recorded


def _has_tests(text: str) -> bool:
    found = "def test" in text or "TestCase)" in text
    return found and importlib.util.find_spec("pytest") is not None


def _run_tests(script: Path) -> str:
    """Runs the tests of a file; returns why they cannot be imported, if so."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    import pytest

    options = "-q -x --maxfail=100000 --noconftest -p no:cacheprovider --import-mode=importlib"
    given = [*options.split(), "-c", os.devnull, "--rootdir", os.getcwd(), str(script)]
    collection = _Collection()
    pytest.main(given, plugins=[collection])
    return collection.problem


class _Collection:
    """A plug-in of pytest that keeps the error of a file that cannot be imported."""

    problem = ""

    def pytest_exception_interact(self, call: Any, report: Any) -> None:
        if report.when == "collect" and not self.problem:
            error = call.excinfo.value
            self.problem = _line(error.__cause__ or error)


def _line(error: BaseException) -> str:
    """The class of an error, and its message if it has one."""
    about = described_error(error)
    return ": ".join(filter(None, (about["error_type"], about["message"])))


# -- what is not installed --------------------------------------------------------------------


class _Anything(MagicMock):
    """Has every attribute, and can be called; as a decorator it returns the function as it is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type):
            return args[0]
        return super().__call__(*args, **kwargs)


class _StandIn(ModuleType):
    """A module that has every name."""

    __path__: list[str] = []  # what makes it a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name=name)


_INSTALLED = Path(os.__file__).parent


def _importer() -> Path:
    """The file that is importing a module."""
    frame = sys._getframe(1)
    while frame.f_back and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_code.co_filename == __file__
    ):
        frame = frame.f_back
    return Path(frame.f_code.co_filename)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: makes a module of any name whose package is not installed."""

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        top = name.partition(".")[0]
        known = top in sys.builtin_module_names or top in sys.stdlib_module_names
        if known or (top in sys.modules and not isinstance(sys.modules[top], _StandIn)):
            return None
        if _importer().is_relative_to(_INSTALLED) or "site-packages" in _importer().parts:
            return None  # A library tries what it can do without.
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""
