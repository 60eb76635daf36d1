"""The operator check finds what is planted in specs that are wrong on purpose."""

from __future__ import annotations

import random

import pytest
import torch

from nnfuzz.check.operators import check_operator, check_operators
from nnfuzz.check.questions import listing, report_table
from nnfuzz.check.versions import legal_signatures
from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.broadcast import partner_shape
from nnfuzz.operators.families.elementwise import Binary, Increasing, Unary
from nnfuzz.operators.operator import In, OpSpec, operator


def report(spec, instances=12):
    return check_operator(operator(spec), random.Random(0), instances)


class Sqrt(Increasing):
    torch = staticmethod(torch.sqrt)
    valid = ((0.0, float("inf")),)
    rounding = (4, 0)


class Mul(Binary):
    inputs = (In("T", FLOATS), In("T"))
    rounding = (2, 0)
    torch = staticmethod(torch.mul)


class Head(OpSpec):
    """The first `size` elements of a vector."""

    name = "Slice"
    inputs = (In("T", FLOATS, (1, 1)),)
    size = Sym(1, 8)

    def requires(self, x):
        yield self.size <= x.shape[0]

    def type_transfer(self, x):
        return [x.with_shape((self.size,))]

    def torch(self, x):
        if self.size > x.shape[0]:
            raise IndexError(self.size)
        return x[: self.size].clone()

    def onnx(self, emit, x):
        ends = [emit.const([v], DType.INT64) for v in (0, self.size, 0)]
        return emit("Slice", x, *ends)


def test_conforming_specs_pass():
    for spec in (Sqrt, Mul, Head):
        found = report(spec)
        assert found.ok, found.problems
        assert found.forward == found.backward == 12
        assert found.accepted and not found.refused and not found.needless
    assert report(Head).broken == report(Head).torch_rejects > 0


class WrongShape(Mul):
    name = "Mul"

    def type_transfer(self, x, y):
        return [x]


class WrongDtype(Sqrt):
    name = "Sqrt"
    output = DType.FLOAT32


class TooLoose(Mul):
    name = "Mul"

    def requires(self, x, y):
        return ()

    def complete(self, draw, first, dtypes):
        return [first, draw.tensor(dtypes[1], 2)]


class WrongMeaning(Sqrt):
    name = "Sqrt"

    def torch(self, x):
        return x.sqrt() * 1.01


class WrongLowering(Mul):
    name = "Mul"

    def onnx(self, emit, x, y):
        return emit("Add", x, y)


class InvalidLowering(Mul):
    name = "Mul"

    def onnx(self, emit, x, y):
        return emit("Mul", x, y, axis=3)


class NoDomain(Sqrt):
    name = "Sqrt"
    valid = ()

    def domain(self, x):
        return []


class WrongRange(Sqrt):
    name = "Sqrt"

    def value_range(self, x):
        return 0.0, 0.1


class WritesInput(Sqrt):
    name = "Sqrt"

    def torch(self, x):
        return x.sqrt_().clone()


class WritesSelf(Sqrt):
    name = "Sqrt"

    def requires(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return ()


class LosesAttributes(Unary):
    name = "Identity"
    table = Choice(by=lambda draw, op, x: frozenset({1}))

    def torch(self, x):
        return x.clone()

    def onnx_attributes(self):
        return {}


class ForgetsTheOutput(Mul):
    name = "Mul"

    def infer_input_types(self, draw, first, dtypes, output):
        return [draw.tensor(d, output.rank) for d in dtypes]

    def type_transfer(self, x, y):
        return [x.with_shape((2,) * x.rank)]


@pytest.mark.parametrize(
    ("spec", "lesson"),
    [
        (WrongShape, "type_transfer"),
        (WrongDtype, "type_transfer"),
        (ForgetsTheOutput, "type_transfer"),
        (TooLoose, "torch raises"),
        (WrongMeaning, "are off"),
        (WrongLowering, "are off"),
        (InvalidLowering, "ONNX rejects"),
        (NoDomain, "not finite"),
        (WrongRange, "value_range"),
        (WritesInput, "wrote to its input"),
        (WritesSelf, "not pure"),
        (LosesAttributes, "not JSON serializable"),
    ],
)
def test_planted_faults_are_found(spec, lesson):
    found = report(spec)
    assert not found.ok
    assert any(lesson in text for text in found.problems), found.problems


class OnlyForward(Sqrt):
    name = "Sqrt"

    @classmethod
    def input_rank(cls, draw, output_rank):
        return None


def test_a_name_that_onnx_does_not_know_is_a_fault_of_the_spec():
    class Nameless(Increasing):
        torch = staticmethod(torch.atan)

    (problem,) = report(Nameless).problems
    assert "`def onnx` says which others it is" in problem
    assert not legal_signatures(operator(Nameless))


def test_backward_insertion_is_optional():
    found = report(OnlyForward)
    assert found.ok and found.backward == 0 and found.unsolved == 12


class TooTight(Mul):
    name = "Mul"

    def requires(self, x, y):
        yield from super().requires(x, y)
        for dim in x.shape:
            yield dim >= 3

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], partner_shape(draw, first.shape))]


def test_needless_tightness_is_measured():
    found = report(TooTight, 30)
    assert found.ok
    assert found.refused_share > 0.2 and found.needless > 0
    assert found.example.startswith("refused: Mul")


class TorchKnowsMore(Mul):
    """PyTorch broadcasts, the ONNX lowering is written as if it could not."""

    name = "Mul"

    def requires(self, x, y):
        yield x.rank == y.rank
        yield from (a == b for a, b in zip(x.shape, y.shape))

    def complete(self, draw, first, dtypes):
        return [first, first]

    def infer_input_types(self, draw, first, dtypes, output):
        return [output, output]

    def onnx(self, emit, x, y):
        same = emit.type(x).shape == emit.type(y).shape
        return emit("Mul" if same else "Add", x, y)


def test_what_only_pytorch_accepts_is_not_called_tight():
    found = report(TorchKnowsMore, 30)
    assert found.ok
    assert found.torch_only > 0 and found.refused == 0


def test_the_same_seed_gives_the_same_report():
    def counts():
        found = next(check_operators([operator(Mul)], seed=3, instances=10))
        return found.forward, found.accepted, found.broken, found.torch_rejects

    assert counts() == counts()


def test_reports_render_as_a_table_and_as_lines():
    reports = [report(WrongShape), report(Sqrt)]
    rendered = report_table(reports)
    assert rendered.row_count == 2 and len(rendered.columns) > 8
    assert all(line.startswith("Mul: ") for line in listing(reports))
