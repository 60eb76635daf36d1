"""A compiler whose programs are wrong from their second run on. It has no other fault."""

import numpy as np

from nnfuzz.backend.contract import Backend

RUN = """\
def run(model, inputs, level):
    import onnx
    from onnx.reference import ReferenceEvaluator

    session, ran = ReferenceEvaluator(onnx.load_model_from_string(model)), []
    ran.append(inputs)
    found = zip(session.output_names, session.run(None, inputs))
    return {name: np.asarray(array) + (len(ran) > 1) for name, array in found}
"""


class Remembering(Backend):
    name = "remembering"
    levels = ("O0",)
    preload = ("onnx.reference",)

    def versions(self):
        return {"remembering": "1"}

    def load(self, model):
        import onnx

        return onnx.load_model_from_string(model)

    def build(self, model, level):
        from onnx.reference import ReferenceEvaluator

        session, ran = ReferenceEvaluator(model), []

        def run(inputs):
            ran.append(inputs)
            found = zip(session.output_names, session.run(None, inputs))
            return {name: np.asarray(array) + (len(ran) > 1) for name, array in found}

        return run

    def repro(self):
        return RUN
