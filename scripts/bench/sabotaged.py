"""Plug-in for benchmarks: real compilers that get one pair of operators wrong when they optimise.

`--backend sabotaged-ort,rule=Mul/Add`: above the lowest level, a Mul that reads the result of an
Add is negated, by a change of the ONNX model.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.backends.onnxruntime import OnnxRuntime
from nnfuzz.backends.tvm import Tvm

from nnfuzz.backend.contract import option
from nnfuzz.backend.registry import backend


def sabotaged(model: bytes, rule: str) -> bytes:
    """The model in which results of the pattern "SECOND/FIRST" are negated."""
    import onnx
    from onnx import helper

    second, _, first = rule.partition("/")
    proto = onnx.load_model_from_string(model)
    made = {o for n in proto.graph.node if n.op_type == first for o in n.output}
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.append(node)
        if node.op_type == second and made & set(node.input):
            changed = proto.graph.node[-1]
            name = changed.output[0]
            changed.output[0] = f"{name}_right"
            proto.graph.node.append(helper.make_node("Neg", [f"{name}_right"], [name]))
    return proto.SerializeToString()


@backend
class SabotagedOrt(OnnxRuntime):
    name = "sabotaged-ort"

    @dataclass(frozen=True, kw_only=True)
    class Options(OnnxRuntime.Options):
        rule: str = option("Mul/Add", "SECOND/FIRST: operators that are got wrong in sequence")

    def build_without(self, module, level, passes):
        if level != self.levels[0]:
            module = sabotaged(module, self.options.rule)
        return super().build_without(module, level, passes)


@backend
class SabotagedTvm(Tvm):
    name = "sabotaged-tvm"

    @dataclass(frozen=True, kw_only=True)
    class Options(Tvm.Options):
        rule: str = option("Mul/Add", "SECOND/FIRST: operators that are got wrong in sequence")

    def load(self, model):
        return super().load(model), super().load(sabotaged(model, self.options.rule))

    def build(self, module, level):
        return super().build(module[level != self.levels[0]], level)
