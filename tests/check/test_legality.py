"""Signatures that ONNX does not admit at an opset are found before they are generated."""

from __future__ import annotations

from nnfuzz.opspecs.attention import Attention, AttentionWindowed
from nnfuzz.opspecs.pool import GlobalLpPool

from nnfuzz.check.versions import illegal, legal_opsets
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.registry import OpRegistry

SMALL = (In("T", (DType.FLOAT32, DType.INT8)),)
SIGNATURE = ({"T": DType.INT8}, DType.INT8)


@operator
class Relu(Unary):
    """One ONNX operator of the same name: its schema tells."""

    inputs = SMALL


@operator
class Twice(Unary):
    """Another lowering: inference over it tells."""

    inputs = SMALL

    def onnx(self, emit, x):
        return emit("Add", x, emit.const(0, emit.type(x).dtype))


@operator
class Widened(Twice):
    """A detour for old opsets makes a signature legal there."""

    def onnx(self, emit, x):
        wide = super().onnx(emit, x) if emit.opset >= 14 else emit("Cast", x, to=DType.INT8)
        return wide


def test_the_schema_or_the_lowering_decides():
    for spec in (Relu, Twice):
        assert illegal([spec], 13) == {f"{spec.name}(int8)->int8"}
        assert not illegal([spec], 14)
        assert legal_opsets(spec, SIGNATURE) == list(range(14, 27))
    assert not illegal([Widened], 13)


def test_nothing_is_legal_before_the_spec_lowers():
    class Late(Relu):
        name, since = "Relu", 20

    assert len(illegal([Late], 19)) == 2 and not illegal([Late], 20)


def test_inputs_of_one_type_variable_have_one_type():
    norm = OpRegistry.load().get("BatchNormalization")
    mixed = next(s for s in norm.signatures() if s[0]["T"] is not s[0]["P"])
    assert legal_opsets(norm, mixed)[0] == 15


def test_signatures_with_late_parts_are_illegal_for_older_releases():
    specs = [AttentionWindowed, Attention, GlobalLpPool]
    always = illegal(specs, 26)
    assert always == illegal(specs, 26, "1.23.2")
    refused = illegal(specs, 26, "1.22.0") - always
    assert {key.partition("(")[0] for key in refused} == {"AttentionWindowed"}
    older = illegal(specs, 26, "0") - always - refused
    assert older == {"GlobalLpPool(bfloat16)->bfloat16"}
