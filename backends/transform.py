"""The contract of a model optimiser, which turns an ONNX model into an equivalent one.

An optimiser is a system under test like a compiler. Its result must pass ONNX's checker, keep
inputs and outputs, and compute what the model computes on ONNX Runtime with its own optimiser off::

    from nnfuzz.backends.transform import Transform

    class Slim(Transform):
        name = "slim"
        preload = ("slim", "onnxruntime")

        @staticmethod
        def transform(model, without):          # an onnx.ModelProto of its own -> another one
            import slim

            return slim.simplify(model, skip=list(without))

        @classmethod
        def passes(cls):                        # optional: names that `without` may hold
            import slim

            return slim.passes()

`transform` imports what it needs, because its source becomes part of stand-alone repro scripts.
"""

from __future__ import annotations

import importlib
import inspect
from abc import abstractmethod
from collections.abc import Collection
from importlib.metadata import version
from textwrap import dedent
from typing import Any, ClassVar

from nnfuzz.backend.complaint import CompilerError, Complaint, Stage, read_complaint
from nnfuzz.backend.contract import IssueForm, Program

from .onnxruntime import OnnxRuntime


def check_transformed(before, after, standard=True):
    """Raises ValidationError, InferenceError or ValueError if the optimised model `after` is
    invalid, or has other inputs and outputs than `before`. standard: whether ONNX's checker knows
    all operators."""
    import onnx

    if standard:
        onnx.checker.check_model(after, full_check=True)
    weights = [{tensor.name for tensor in model.graph.initializer} for model in (before, after)]
    for kind in ("input", "output"):
        old, new = (
            [value for value in getattr(model.graph, kind) if value.name not in own]
            for model, own in zip((before, after), weights if kind == "input" else ([], []))
        )
        if [value.name for value in old] != [value.name for value in new]:
            raise ValueError(f"the transformed model has other {kind}s")
        for was, now in zip(old, new):
            one, other = was.type.tensor_type, now.type.tensor_type
            if one.elem_type != other.elem_type:
                raise ValueError(f"the transformed model declares another dtype of {was.name}")
            sizes = [
                (a.dim_value, b.dim_value)
                for a, b in zip(one.shape.dim, other.shape.dim)
                if a.HasField("dim_value") and b.HasField("dim_value")
            ]
            ranks = {len(t.shape.dim) for t in (one, other) if t.HasField("shape")}
            if len(ranks) > 1 or any(a != b for a, b in sizes):
                raise ValueError(f"the transformed model declares another shape of {was.name}")


_REPRO = """\
def transformed(model, level):
    import onnx

    if level == "none":
        return model
    before, copy = (onnx.load_model_from_string(model) for _ in range(2))
    after = transform(copy, ())
    check_transformed(before, after, standard={standard})
    return after.SerializeToString()


"""


class Transform(OnnxRuntime):
    """Base of model optimisers: level "none" runs the model as it is, "all" the optimised model."""

    levels: ClassVar[tuple[str, ...]] = ("none", "all")
    steps = ()
    preload: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    baseline = "none"
    compiling = Stage.TRANSFORM
    issue_form: ClassVar[IssueForm | None] = None
    install = 'pip install "nnfuzz[optimisers]"'
    optimisation: ClassVar = {"none": "ORT_DISABLE_ALL", "all": "ORT_DISABLE_ALL"}
    repro_model = "transformed(model, level)"
    loads_files = False
    standard: ClassVar[bool] = True
    """Whether the result is standard ONNX, which ONNX's checker must accept."""

    @staticmethod
    @abstractmethod
    def transform(model: Any, without: Collection[str]) -> Any:
        """onnx.ModelProto -> an equivalent one; the argument may be changed.

        without: passes to switch off; always empty if `passes` returns no names.
        """

    @classmethod
    def passes(cls) -> list[str]:
        """Names of the passes that can be switched off, in the order in which they run."""
        return []

    def versions(self) -> dict[str, str]:
        """Versions of the packages in `preload`, the optimiser's first."""
        for module in self.preload:
            importlib.import_module(module)
        packages = [module.partition(".")[0] for module in self.preload]
        return {name: version(name) for name in packages if name != "onnxruntime"} | (
            super().versions()
        )

    def build_without(self, module: bytes, level: str, passes: Collection[str]) -> Program:
        if level != self.baseline:
            import onnx

            before, copy = (onnx.load_model_from_string(module) for _ in range(2))
            after = self.transform(copy, tuple(passes))
            check_transformed(before, after, self.standard)
            module = after.SerializeToString()
        return super().build_without(module, level, ())

    def fired_passes(self, module: bytes, level: str) -> list[str]:
        """Returns all passes, because optimisers do not report which ones change the model."""
        names = self.passes()
        if not names:
            raise NotImplementedError(f"{self.name} does not tell its passes")
        return names

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        if error.error_type.startswith("onnxruntime"):
            return super().complaint(error)
        return read_complaint(error)

    def _script(self) -> str:
        source = dedent(inspect.getsource(self.transform)).removeprefix("@staticmethod\n")
        checks = inspect.getsource(check_transformed)
        used = _REPRO.format(standard=self.standard)
        return f"{source}\n\n{checks}\n\n{used}{super()._script()}"
