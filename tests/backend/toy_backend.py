"""A whole backend in fifty lines: ONNX's own reference evaluator, with and without a rewrite."""

from dataclasses import dataclass

from nnfuzz.backend.complaint import ComplaintKind
from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.registry import backend


@backend
class Toy(Backend):
    name = "toy"
    levels = ("O0", "O1")
    preload = ("onnx.reference",)
    install = "pip install onnx"

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        fold: bool = option(True, "drop Identity nodes at O1")

    def versions(self):
        import onnx

        return {"onnx": onnx.__version__}

    def load(self, model):
        import onnx

        return onnx.load_model_from_string(model)

    def build(self, module, level):
        from onnx.reference import ReferenceEvaluator

        if level == "O1" and self.options.fold:
            module = without_identities(module)
        session = ReferenceEvaluator(module)
        names = session.output_names
        return lambda inputs: dict(zip(names, session.run(names, inputs)))

    @classmethod
    def complaint(cls, error):
        said = super().complaint(error)
        lacks = "OpRun implementation" in error.message
        return said.of_kind(ComplaintKind.UNSUPPORTED) if lacks else said


def without_identities(model):
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    alias = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Identity"}
    outputs = {value.name for value in model.graph.output}
    del result.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "Identity" or node.output[0] in outputs:
            kept = result.graph.node.add()
            kept.CopyFrom(node)
            kept.input[:] = [alias.get(name, name) for name in node.input]
    return result
