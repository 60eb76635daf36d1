"""A plug-in of pytest that runs a corpus: one test per model.

    pytest --nnfuzz-models models --nnfuzz-backend tvm --nnfuzz-xfail known.txt

It is installed with nnfuzz and does nothing, and imports nothing, unless --nnfuzz-models is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nnfuzz.base.writing import as_json

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendSpec
    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.corpus.layout import TestFolder
    from nnfuzz.corpus.verify import LevelResult
    from nnfuzz.testcase.client import ProducerClient

MODEL = "model.onnx"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nnfuzz", "regression models in the layout of ONNX's backend tests")
    add = group.addoption
    add("--nnfuzz-models", metavar="DIR", help="Run the models in this folder, a test for each.")
    add(
        "--nnfuzz-backend",
        metavar="NAME",
        help="The compiler, such as onnxruntime,opset=17.",
    )
    add("--nnfuzz-level", metavar="O0,O3", help="Levels of it; default: the least and the most.")
    add("--nnfuzz-plugin", metavar="FILE", action="append", help="A file with further backends.")
    add("--nnfuzz-xfail", metavar="FILE", help="Known failures, as for nnfuzz verify --known.")


def pytest_configure(config: pytest.Config) -> None:
    """Raises: pytest.UsageError for options that make no sense."""
    folder = config.getoption("nnfuzz_models")
    if folder is None:
        return
    if config.getoption("nnfuzz_backend") is None:
        raise pytest.UsageError("--nnfuzz-models needs --nnfuzz-backend NAME (see nnfuzz backends)")
    root = Path(folder).absolute()
    if not any(root.rglob(MODEL)):
        raise pytest.UsageError(f"--nnfuzz-models {folder}: there is no {MODEL} below it")
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    config.args = [*(config.args if given else ()), str(root)]
    config.pluginmanager.register(Corpus(config, root), "nnfuzz-corpus")


class Corpus:
    """The models of a session, and what runs them, which starts with the first of them."""

    def __init__(self, config: pytest.Config, root: Path) -> None:
        """Raises: pytest.UsageError."""
        from datetime import date

        from nnfuzz.backend.contract import OptionError
        from nnfuzz.backend.registry import BackendRegistry, RegistryError
        from nnfuzz.base.reading import Unreadable
        from nnfuzz.corpus.known import KnownTestFailures, load

        self.root = root
        self._stack = ExitStack()
        level, xfail = config.getoption("nnfuzz_level"), config.getoption("nnfuzz_xfail")
        self._levels = [part.strip() for part in level.split(",")] if level else None
        try:
            registry = BackendRegistry.discover(config.getoption("nnfuzz_plugin") or ())
            self.spec: BackendSpec = registry.parse(config.getoption("nnfuzz_backend"))
            missing = registry.get(self.spec.name).missing()
            self._known = KnownTestFailures(load(Path(xfail)) if xfail else (), None, date.today())
        except (RegistryError, OptionError, Unreadable) as error:
            raise pytest.UsageError(str(error)) from error
        if missing:
            raise pytest.UsageError(f"backend {self.spec.name} cannot be used: {missing}")

    def pytest_collect_file(self, file_path: Path, parent: object) -> pytest.File | None:
        if file_path.name == MODEL and file_path.is_relative_to(self.root):
            return ModelFile.from_parent(parent, path=file_path, corpus=self)
        return None

    def pytest_unconfigure(self) -> None:
        self._stack.close()

    def run(self, test: TestFolder) -> list[LevelResult]:
        """The results of a test at every level. Raises: OptionError, RunnerError."""
        from nnfuzz.corpus.verify import verify_one

        runner = self._runner
        levels = self._levels or runner.backend.default_levels()
        results = verify_one(test, runner, self._producer.judge, levels, self._producer)
        return [self._known.judge(result) for result in results]

    @cached_property
    def _runner(self) -> BackendRunner:
        from nnfuzz.backend.runner import BackendRunner

        return self._stack.enter_context(BackendRunner(self.spec))

    @cached_property
    def _producer(self) -> ProducerClient:
        from nnfuzz.testcase.case import CaseConfig
        from nnfuzz.testcase.client import ProducerClient

        config = as_json(CaseConfig(exporter="direct", plugins=tuple(self.spec.plugins)))
        return self._stack.enter_context(ProducerClient(0, config))


class ModelFile(pytest.File):
    """A model.onnx with its data beside it."""

    def __init__(self, *, corpus: Corpus, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.corpus = corpus

    def collect(self) -> Iterator[pytest.Item]:
        from nnfuzz.corpus.layout import find_tests

        for test in find_tests(self.path.parent):
            if test.path == self.path.parent:
                name = f"{test.path.name}[{self.corpus.spec.label}]"
                yield ModelItem.from_parent(self, name=name, test=test)


class Failed(Exception):
    """What is wrong with a model, a line per level."""


class ModelItem(pytest.Item):
    """One model on one backend, at all levels."""

    def __init__(self, *, test: TestFolder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test = test

    def runtest(self) -> None:
        from nnfuzz.corpus.verify import Status

        assert isinstance(self.parent, ModelFile)
        results = self.parent.corpus.run(self.test)
        lines = (f"{r.level}: {r.message}\n{r.details}".strip() for r in results if r.message)
        report = "\n".join(lines)
        statuses = {result.status for result in results}
        if statuses & {Status.FAILED, Status.ERROR}:
            raise Failed(report)
        if Status.KNOWN in statuses:
            pytest.xfail(report)
        if statuses == {Status.SKIPPED}:
            pytest.skip(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        failed = isinstance(excinfo.value, Failed)
        return str(excinfo.value) if failed else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
