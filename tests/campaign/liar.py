"""A backend that gets results wrong, always or now and then, as the model's doc_string asks.

"sometimes HOW 1101" does HOW in the first, second and fourth run of the campaign.
"""

import os
from pathlib import Path

from nnfuzz.backend.contract import Backend, Override
from nnfuzz.backend.target import DEFAULT


class Liar(Backend):
    name = "liar"
    levels = ("O0", "O1")
    overrides = (Override("quiet=1", "it whispers"), Override("honest=1", "it likes round numbers"))

    def versions(self):
        return {"liar": "1"}

    def load(self, model):
        import onnx

        doc = onnx.load_model_from_string(model).doc_string
        if doc == "unsupported":
            raise NotImplementedError("no Identity here")
        return doc

    def build(self, module, level):
        def run(inputs):
            wrong = module == "wrong"
            if module == "flaky" and level == "O1":
                wrong = is_first(int(inputs["x"][0]))
            if module.startswith("sometimes") and level == "O1":
                _, how, plan = module.split()
                wrong = plan[count()] == "1" and misbehave(how)
            wrong = module == "wrong everywhere" or (wrong and level == "O1")
            if module == "given away" and level.startswith(DEFAULT):
                wrong = "honest=1" not in level
            return {"y": inputs["x"] + 1 if wrong else inputs["x"]}

        return run


def is_first(test: int) -> bool:
    """Whether no worker of the same fork server has run a test before."""
    try:
        (Path("..") / f"test {test}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


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
