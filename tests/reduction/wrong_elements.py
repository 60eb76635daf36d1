"""ONNX's reference evaluator as a backend whose O1 gets single elements of one operator wrong.

The option `op` names the ONNX operator and `rule` what makes it wrong, see RULES. Reduction has to
find the elements, the sizes or the numbers that a rule depends on.
"""

from dataclasses import dataclass

import numpy as np

from nnfuzz.backend.contract import Backend, BackendOptions, option

MAGIC = 77
"""The number that some rules depend on."""


def _where(out, mask):
    """The elements of the result at which a mask of an operand's shape holds."""
    try:
        return np.broadcast_to(mask, out.shape)
    except ValueError:
        return np.full(out.shape, bool(mask.any()))


def _last(out, count):
    mask = np.zeros(out.size, bool)
    mask[out.size - count :] = count > 0
    return mask.reshape(out.shape)


RULES = {
    "magic": lambda ins, out: _where(out, ins[0] == MAGIC),
    "second_magic": lambda ins, out: _where(out, ins[1] == MAGIC),
    "both_magic": lambda ins, out: _where(out, (ins[0] == MAGIC) & (ins[1] == MAGIC)),
    "equal": lambda ins, out: _where(out, ins[0] == ins[1]),
    "wide": lambda ins, out: _last(out, 1 if out.ndim and out.shape[-1] >= 16 else 0),
    "many": lambda ins, out: _last(out, 1 if out.size >= 20 else 0),
    "tail": lambda ins, out: _last(out, out.size % 8 if out.size > 8 else 0),
    "blocks": lambda ins, out: _last(out, 1 if out.ndim > 1 and min(out.shape[-2:]) >= 5 else 0),
    "high_and_wide": lambda ins, out: (
        _where(out, ins[0] == MAGIC) & (out.ndim > 0 and out.shape[-1] >= 9)
    ),
}
"""(inputs, first output of a node) -> the mask of its elements that come out wrong."""

_LOADED = [0]
"""Models that this process has loaded."""


class WrongElements(Backend):
    name = "elements"
    levels = ("O0", "O1")
    preload = ("onnx.reference",)

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        op: str = option("Mul", "operator of ONNX that is wrong")
        rule: str = option("magic", "when it is wrong, see RULES")
        flaky: int = option(0, "elements up to which the first model of a process is right")

    def versions(self):
        import onnx

        return {"onnx": onnx.__version__}

    def load(self, model):
        import onnx

        _LOADED[0] += 1
        return onnx.load_model_from_string(model)

    def build(self, module, level):
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(module)
        small = _elements(module) <= self.options.flaky
        right = level == "O0" or (small and _LOADED[0] == 1)
        rule = None if right else RULES[self.options.rule]
        return lambda inputs: self._run(session, inputs, rule)

    def _run(self, session, inputs, rule):
        values = {"": None, **session.rt_inits_, **inputs}
        for node in session.rt_nodes_:
            given = [values[name] for name in node.input]
            outputs = list(node.run(*given))
            if rule is not None and node.onnx_node.op_type == self.options.op:
                outputs[0] = _spoilt(outputs[0], rule(given, outputs[0]))
            values.update(zip(node.output, outputs))
        return {name: values[name] for name in session.output_names}


def _spoilt(array, mask):
    """An array with wrong elements where the mask holds."""
    wrong = ~array if array.dtype == bool else array * 2 + 100
    return np.where(mask, wrong, array).astype(array.dtype).reshape(array.shape)


def _elements(model):
    """Of all inputs of a model."""
    shapes = [i.type.tensor_type.shape.dim for i in model.graph.input]
    return sum(int(np.prod([d.dim_value for d in shape])) for shape in shapes)
