"""A compiler with releases: ONNX's reference evaluator, to which release 1.0 adds one, up to
the opsets of each release. Neither takes the cosine.
"""

import numpy as np

from nnfuzz.backend.contract import Backend


class Released(Backend):
    name = "toyrel"
    levels = ("O0",)
    preload = ("toyrel",)
    distribution = "toyrel"
    older = {"1.5": "numpy>=2"}

    def versions(self):
        import toyrel

        return {"toyrel": toyrel.RELEASE}

    def load(self, model):
        import onnx
        import toyrel

        found = onnx.load_model_from_string(model)
        if any(node.op_type == "Cos" for node in found.graph.node):
            raise ValueError("no cosine")
        if found.opset_import[0].version > toyrel.NEWEST_OPSET:
            raise NotImplementedError("this opset")
        return found

    def build(self, module, level):
        import toyrel
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(module)
        names = session.output_names
        return lambda inputs: {
            name: np.asarray(value + value.dtype.type(toyrel.WRONG))
            for name, value in zip(names, session.run(names, inputs))
        }
