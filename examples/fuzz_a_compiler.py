"""Fuzz a compiler in 15 lines: python fuzz_a_compiler.py [COMPILER] [MODELS]

Each finding becomes a folder in out/, with a report, a script that shows it, and the model.
"""

import itertools
import sys

import nnfuzz

if __name__ == "__main__":  # workers are processes of their own, as with multiprocessing
    compiler, count = (sys.argv[1:] + ["onnxruntime", "100"][len(sys.argv) - 1 :])[:2]
    cases = nnfuzz.Generator(seed=7, nodes=10)  # endless; cases[7] is the same everywhere
    with nnfuzz.Experiment([compiler]) as run:  # at its least and its most optimised level
        for case in itertools.islice(cases, int(count)):
            for finding in run.findings(run(case)):
                print(finding.signature)
                smallest = nnfuzz.reduce(finding)  # that fails in the same way
                print("  ->", nnfuzz.save_finding(smallest, "out"))
