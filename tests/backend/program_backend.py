"""A compiler that is a program: onnx.reference in a command of its own, with two faults."""

import sys

import nnfuzz
from nnfuzz.backend.command import CommandBackend

PROGRAM = """
import os, signal, sys
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np, onnx
from onnx.reference import ReferenceEvaluator

model, level, inputs, outputs = sys.argv[1:]
proto = onnx.load(model)
kinds = [node.op_type for node in proto.graph.node]
if "Neg" in kinds:
    sys.exit("Neg: no entry in the table")
if "Abs" in kinds:
    print("table of signs: overrun", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
given = {unquote(f.stem): np.load(f) for f in Path(inputs).iterdir()}
names = [value.name for value in proto.graph.output]
for name, array in zip(names, ReferenceEvaluator(proto).run(None, given)):
    np.save(Path(outputs) / f"{quote(name, safe='')}.npy", array)
"""


@nnfuzz.register
class Program(CommandBackend):
    name = "program"
    levels = ("O0", "O1")
    command = (sys.executable, "-c", PROGRAM, "{model}", "{level}", "{inputs}", "{outputs}")

    def versions(self):
        return {"program": "1.0"}
