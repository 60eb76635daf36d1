"""ONNX's reference evaluator as a backend with causes that several operators share.

Softmax and LogSoftmax ignore their axis; Elu and Selu are looked up in a table that lacks them; the
product of MatMul is transposed.
"""

from nnfuzz.execute.backend import Backend

TABLE: dict[str, str] = {}


class Causes(Backend):
    name = "causes"
    levels = ("O0",)
    preload = ("onnx.reference",)

    def versions(self):
        import onnx

        return {"onnx": onnx.__version__}

    def load(self, model):
        import onnx

        return onnx.load_model_from_string(model)

    def build(self, module, level):
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(rewritten(module))
        names = session.output_names
        return lambda inputs: dict(zip(names, session.run(names, inputs)))


def rewritten(module):
    import onnx
    from onnx import helper

    result = onnx.ModelProto()
    result.CopyFrom(module)
    del result.graph.node[:]
    for node in module.graph.node:
        if node.op_type in ("Elu", "Selu"):
            raise RuntimeError(f"no activation {node.op_type} in a table of {len(TABLE)}")
        kept = result.graph.node.add()
        kept.CopyFrom(node)
        if node.op_type in ("Softmax", "LogSoftmax"):
            del kept.attribute[:]
        if node.op_type == "MatMul":
            name = node.output[0]
            kept.output[0] = f"{name}_product"
            turned = helper.make_node("Transpose", [f"{name}_product"], [name])
            result.graph.node.append(turned)
    return result
