"""A backend that reads PyTorch modules, and at O1 takes Tanh for Sin: a planted fault."""

from nnfuzz.backend.contract import Backend, NoDevice
from nnfuzz.backend.target import MODULE

RUN = """\
def run(model, inputs, level):
    found = list(model(*(to_torch(inputs[name]) for name in model.inputs)))
    if level == "O1" and "aten.tanh." in SOURCE:
        found = [x + 1 for x in found]
    return {name: to_numpy(x, d) for (name, d), x in zip(model.outputs.items(), found)}


SOURCE = open(__file__).read()
"""


class ModuleReader(Backend):
    name = "reader"
    reads = MODULE
    levels = ("O0", "O1")
    preload = ("nnfuzz.backend.modules",)

    def versions(self):
        return {"reader": "1"}

    def load(self, source):
        return source

    def build(self, source, level):
        wrong = level == "O1" and "aten.tanh" in source.module.code

        def run(inputs):
            found = source.module(*source.arguments(inputs))
            return source.results([x + 1 for x in found] if wrong else found)

        return run

    def repro(self):
        return RUN


class Nowhere(Backend):
    """It builds and has no device to run on."""

    name = "nowhere"
    levels = ("O0", "O1")

    def versions(self):
        return {"nowhere": "1"}

    def load(self, model):
        return model

    def build(self, module, level):
        def run(inputs):
            raise NoDevice

        return run
