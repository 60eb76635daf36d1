"""ONNX's reference evaluator as a backend with causes that several operators share.

Softmax and LogSoftmax ignore their axis; Elu and Selu are looked up in a table that lacks them; the
product of MatMul is transposed. Reductions ignore noop_with_empty_axes, of more than two operands
two count, Sub and Div take constants without their signs, and gated activations die without a word.
"""

from causes_compiler import rewritten

from nnfuzz.backend.contract import Backend


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
