"""Differential fuzzing of deep-learning compilers: the library.

    import itertools, nnfuzz

    cases = nnfuzz.Generator(seed=7, nodes=10)
    with nnfuzz.Experiment(["onnxruntime", "tvm/O0"]) as run:
        for case in itertools.islice(cases, 100):
            for finding in run.findings(run(case)):
                nnfuzz.save_finding(nnfuzz.reduce(finding), "out")

Names are imported when they are first used: `import nnfuzz` costs nothing.
"""

from __future__ import annotations

from nnfuzz.base.safe_path import leave_working_directory

leave_working_directory()  # first: anything that is imported could come from there

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    from nnfuzz.backend.target import Target as Target
    from nnfuzz.compare.mismatch import Verdict as Verdict
    from nnfuzz.experiment.result import Result as Result
    from nnfuzz.library.case import case_from_onnx as case_from_onnx
    from nnfuzz.library.case import load_case as load_case
    from nnfuzz.library.case import save_case as save_case
    from nnfuzz.library.checking import check_model as check_model
    from nnfuzz.library.experiment import Experiment as Experiment
    from nnfuzz.library.experiment import Oracle as Oracle
    from nnfuzz.library.experiment import load_finding as load_finding
    from nnfuzz.library.experiment import reduce as reduce
    from nnfuzz.library.experiment import save_finding as save_finding
    from nnfuzz.library.generator import Generator as Generator
    from nnfuzz.library.generator import NoTestCase as NoTestCase
    from nnfuzz.library.model_check import ModelCheck as ModelCheck
    from nnfuzz.library.plugins import register as register
    from nnfuzz.records.finding import Finding as Finding
    from nnfuzz.testcase.case import ModelError as ModelError
    from nnfuzz.testcase.case import TestCase as TestCase
    from nnfuzz.triage.signature import Failure as Failure

_HOMES = {
    "Experiment": "nnfuzz.library.experiment",
    "Failure": "nnfuzz.triage.signature",
    "Finding": "nnfuzz.records.finding",
    "Generator": "nnfuzz.library.generator",
    "ModelCheck": "nnfuzz.library.model_check",
    "ModelError": "nnfuzz.testcase.case",
    "NoTestCase": "nnfuzz.library.generator",
    "Oracle": "nnfuzz.library.experiment",
    "Result": "nnfuzz.experiment.result",
    "Target": "nnfuzz.backend.target",
    "TestCase": "nnfuzz.testcase.case",
    "Verdict": "nnfuzz.compare.mismatch",
    "case_from_onnx": "nnfuzz.library.case",
    "check_model": "nnfuzz.library.checking",
    "load_case": "nnfuzz.library.case",
    "load_finding": "nnfuzz.library.experiment",
    "reduce": "nnfuzz.library.experiment",
    "register": "nnfuzz.library.plugins",
    "save_case": "nnfuzz.library.case",
    "save_finding": "nnfuzz.library.experiment",
}
"""Where each name of the library is defined."""

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
