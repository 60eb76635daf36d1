"""`python -m nnfuzz.fuzz` is the same as `nnfuzz fuzz`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "fuzz")
    runpy.run_module("nnfuzz", run_name="__main__", alter_sys=True)
