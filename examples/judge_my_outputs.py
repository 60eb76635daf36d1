"""Are the outputs of what I run myself right? python judge_my_outputs.py MODEL.onnx

Here it is ONNX Runtime that runs the model; put your own program in its place.
"""

import sys

import numpy as np
import onnxruntime

import nnfuzz


def run(model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, inputs))))


if __name__ == "__main__":
    case = nnfuzz.case_from_onnx(sys.argv[1])  # with inputs that it finds
    oracle = nnfuzz.Oracle()
    verdict = oracle(case, run(case.model, dict(case.inputs)))
    print(verdict)  # what is wrong, and how much was compared if that is not everything
    for name, envelope in oracle.envelope(case).items():
        print(f"{name}: correct is from\n{envelope.lo}\nto\n{envelope.hi}")
    sys.exit(not verdict.ok)
