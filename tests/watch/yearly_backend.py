"""A compiler of the tests whose releases break and mend operators: toyyear has the sets."""

from nnfuzz.backend.contract import Backend

PROGRAM = """\
def run(model, inputs, level):
    import toyyear

    return toyyear.run(model, inputs)
"""


class Yearly(Backend):
    name = "toyyear"
    levels = ("O0",)
    preload = ("toyyear",)
    distribution = "toyyear"

    def versions(self):
        import toyyear

        return {"toyyear": toyyear.RELEASE}

    def load(self, model):
        return model

    def build(self, module, level):
        import toyyear

        return lambda inputs: toyyear.run(module, inputs)

    def repro(self):
        return PROGRAM
