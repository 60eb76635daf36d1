"""A compiler that prints its reasons and raises errors without words; what it does stands in the
model's doc_string.
"""

import os
import subprocess

from nnfuzz.backend.contract import Backend


class Mumbling(Backend):
    name = "mumbling"
    levels = ("O0", "O1")

    def versions(self):
        return {"mumbling": "1"}

    def load(self, model):
        import onnx

        how, stage = onnx.load_model_from_string(model).doc_string.split(" ", 1)
        if stage == "import":
            self.fail(how)
        return how, stage, tuple(model.outputs)

    def build(self, module, level):
        how, stage, outputs = module
        print(f"mumbling: compiling at {level}")
        if stage == "compile":
            self.fail(how)
        return lambda inputs: dict.fromkeys(outputs, inputs["x"])

    def fail(self, how):
        if how == "refuse":
            subprocess.run(["echo", "mumbling: error: Foo is not supported"], check=True)
        elif how == "slip":
            os.write(2, b"mumbling: error: 3 is not 4\n")
        elif how == "die":
            os.write(2, b"mumbling: error: 3 is not 4\n")
            os.abort()
        raise RuntimeError("compilation failed")

    @classmethod
    def console(cls, text):
        told = [line for line in text.splitlines() if line.startswith("mumbling: error: ")]
        return "\n".join(line.removeprefix("mumbling: error: ") for line in told) or None


class Stumbling(Mumbling):
    name = "stumbling"

    @classmethod
    def console(cls, text):
        return text.nothing
