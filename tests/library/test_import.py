"""`import nnfuzz` is free, and every name of it is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nnfuzz


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_nothing():
    heavy = "{'torch', 'onnx', 'z3', 'numpy', 'typer'}"
    assert run(f"import sys, nnfuzz; print({heavy} & set(sys.modules))") == "set()"


def test_naming_everything_loads_no_engine():
    heavy = "{'torch', 'z3', 'typer'}"
    assert run(f"import sys; from nnfuzz import *; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("name", nnfuzz.__all__)
def test_every_name_is_there_and_documented(name):
    assert name in dir(nnfuzz)
    assert callable(getattr(nnfuzz, name)) and getattr(nnfuzz, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nnfuzz' has no attribute 'Fuzzer'"):
        nnfuzz.Fuzzer  # noqa: B018
