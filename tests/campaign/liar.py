"""A backend that gets results wrong, always or now and then, as the model's doc_string asks.

"sometimes HOW 1101" does HOW in the first, second and fourth run of the campaign.
"""

import os
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
            if module.startswith("sometimes") and level == "O1":
                _, how, plan = module.split()
                wrong = plan[count()] == "1" and misbehave(how)
            wrong = module == "wrong everywhere" or (wrong and level == "O1")
            return {"y": inputs["x"] + 1 if wrong else inputs["x"]}

        return run


def count() -> int:
    """How often this was called by workers of the same fork server."""
    place = Path("..") / "count"
    number = int(place.read_text()) if place.exists() else 0
    place.write_text(str(number + 1))
    return number


def misbehave(how: str) -> bool:
    if how == "abort":
        os.abort()
    if how == "raise":
        raise ValueError("not always")
    return True
