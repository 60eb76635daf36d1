"""Differential fuzzing of deep-learning compilers: the library.

    import itertools, nnfuzz

    cases = nnfuzz.Generator(seed=7, nodes=10)
    with nnfuzz.Experiment(["onnxruntime", "tvm/O0"]) as run:
        for case in itertools.islice(cases, 100):
            if failures := run(case).failures:
                nnfuzz.reduce(failures[0]).save("out")

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
    from nnfuzz.library.case import TestCase as TestCase
    from nnfuzz.library.checking import check_model as check_model
    from nnfuzz.library.experiment import Experiment as Experiment
    from nnfuzz.library.experiment import Result as Result
    from nnfuzz.library.finding import Failure as Failure
    from nnfuzz.library.finding import Finding as Finding
    from nnfuzz.library.finding import reduce as reduce
    from nnfuzz.library.generator import Generator as Generator
    from nnfuzz.library.generator import NoTestCase as NoTestCase
    from nnfuzz.library.model_check import ModelCheck as ModelCheck
    from nnfuzz.library.oracle import Oracle as Oracle
    from nnfuzz.library.plugins import register as register
    from nnfuzz.testcase.case import ModelError as ModelError

_HOMES = {
    "Experiment": "nnfuzz.library.experiment",
    "Failure": "nnfuzz.library.finding",
    "Finding": "nnfuzz.library.finding",
    "Generator": "nnfuzz.library.generator",
    "ModelCheck": "nnfuzz.library.model_check",
    "ModelError": "nnfuzz.testcase.case",
    "NoTestCase": "nnfuzz.library.generator",
    "Oracle": "nnfuzz.library.oracle",
    "Result": "nnfuzz.library.experiment",
    "Target": "nnfuzz.backend.target",
    "TestCase": "nnfuzz.library.case",
    "Verdict": "nnfuzz.compare.mismatch",
    "check_model": "nnfuzz.library.checking",
    "reduce": "nnfuzz.library.finding",
    "register": "nnfuzz.library.plugins",
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
