"""A backend that gets results wrong, always or once, as the model's doc_string asks."""

from pathlib import Path

from nnfuzz.execute.backend import Backend


class Liar(Backend):
    name = "liar"
    levels = ("O0", "O1")

    def versions(self):
        return {"liar": "1"}

    def load(self, model):
        import onnx

        doc = onnx.load_model_from_string(model).doc_string
        if doc == "unsupported":
            raise NotImplementedError("no Identity here")
        return doc

    def build(self, module, level):
        # The scratch folder belongs to one worker: a fresh worker has not been here before.
        mark = Path("been-here")
        first = not mark.exists()
        if module == "right":
            mark.touch()

        def run(inputs):
            wrong = module == "wrong" or (module == "flaky" and not first)
            return {"y": inputs["x"] + 1 if wrong and level == "O1" else inputs["x"]}

        return run
