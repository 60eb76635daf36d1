"""ONNX's reference evaluator as a backend whose O1 has a wrong rule: Mul after Add yields one more.

With the option `where=always` the rule holds at every level, with `raises=1` it raises instead.
"""

from dataclasses import dataclass

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.target import Pipeline


class Planted(Backend):
    name = "planted"
    levels = ("O0", "O1")
    preload = ("onnx.reference",)

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        where: str = option("O1", "level of the wrong rule, or always")
        raises: bool = option(False, "raise instead")
        least: int = option(0, "nodes that a model must have for the rule to apply")

    def versions(self):
        import onnx

        return {"onnx": onnx.__version__}

    def load(self, model):
        import onnx

        return onnx.load_model_from_string(model)

    def build(self, module, level):
        return self.build_without(module, level, ())

    def fired_passes(self, module, level):
        return [] if level == "O0" else ["Tidy", "FuseMulAdd", "Sweep"]

    def build_without(self, module, level, passes):
        from onnx.reference import ReferenceEvaluator

        on = self.options.where in (level, "always") and "FuseMulAdd" not in passes
        if on and len(module.graph.node) >= self.options.least:
            module = self._rewritten(module)
        session = ReferenceEvaluator(module)
        names = session.output_names
        return lambda inputs: dict(zip(names, session.run(names, inputs)))

    def _rewritten(self, module):
        """Mul(Add(a, b), c) becomes Mul(Add(a, b), c) + 1."""
        import onnx
        from onnx import helper

        result = onnx.ModelProto()
        result.CopyFrom(module)
        del result.graph.node[:]
        sums = {n.output[0] for n in module.graph.node if n.op_type == "Add"}
        for node in module.graph.node:
            kept = result.graph.node.add()
            kept.CopyFrom(node)
            if node.op_type == "Mul" and sums & set(node.input):
                if self.options.raises:
                    raise RuntimeError(f"cannot fuse {node.name or node.output[0]} with Add")
                name = node.output[0]
                kept.output[0] = f"{name}_exact"
                one = helper.make_node("Cos", [f"{name}_exact"], [f"{name}_cos"])
                zero = helper.make_node("Sub", [f"{name}_cos", f"{name}_cos"], [f"{name}_0"])
                step = helper.make_node("Exp", [f"{name}_0"], [f"{name}_1"])
                last = helper.make_node("Add", [f"{name}_exact", f"{name}_1"], [name])
                result.graph.node.extend([one, zero, step, last])
        return result


class Drawn(Planted):
    """The rule holds where Rewrite runs behind Prepare, whatever the level, or with mode=odd."""

    name = "drawn"

    @dataclass(frozen=True, kw_only=True)
    class Options(Planted.Options):
        broken: bool = option(False, "raise otherwise where the rule does not hold")

    steps = ("Tidy", "Prepare", "Rewrite", "Sweep", "mode=odd", "mode=even")

    def draw_pipeline(self, rng):
        passes = rng.sample(self.steps[:4], 4)
        return Pipeline("O0", (*passes, rng.choice(self.steps[4:])))

    def fired_passes(self, module, level):
        return [step for step in Pipeline.parse(level).steps if "=" not in step]

    def build_without(self, module, level, passes):
        steps = [step for step in Pipeline.parse(level).steps if step not in passes]
        behind = steps[steps.index("Prepare") :] if "Prepare" in steps else []
        wrong = "Rewrite" in behind or "mode=odd" in steps
        if self.options.broken and not wrong:
            raise RuntimeError("the kernel is broken")
        return super().build_without(module, "O1" if wrong else "O0", ())
