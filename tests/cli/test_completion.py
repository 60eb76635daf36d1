"""What a shell completes, and that completing is quick."""

from __future__ import annotations

import os
import subprocess
import sys

from nnfuzz.cli import completion
from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize.opsets import OPSETS
from nnfuzz.operators.registry import OpRegistry


def test_operators_are_those_of_the_registry():
    assert set(completion.complete_operators("")) == set(OpRegistry.load([]))
    assert completion.complete_operators("Conv,MatMul,Conv") == [
        f"Conv,MatMul,{name}" for name in ("ConvInteger", "ConvTranspose")
    ]
    assert completion.complete_operator("GlobalA") == ["GlobalAveragePool"]


def test_backends_exporters_levels_and_dtypes():
    assert completion.complete_backends("onnxr") == ["onnxruntime"]
    assert completion.complete_exporters("") == [*OPSETS, "mixed"]
    assert completion.complete_exporters("direct,d") == ["direct,dynamo"]
    assert "O0,O3" in completion.levels("O0,")
    assert completion.dtypes("") == [dtype.value for dtype in DType]


def completed(words, place):
    """What bash is told for `nnfuzz WORDS` with the cursor at the word of that place."""
    code = (
        "import sys\n"
        "from nnfuzz.cli.main import application\n"
        "try: application()(prog_name='nnfuzz')\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'onnx', 'onnxruntime', 'tvm', 'z3'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    asked = {"_NNFUZZ_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **asked},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_shell_completes_without_heavy_imports():
    assert completed("nnfuzz fuzz --backend tv", 3) == ["tvm"]
    assert completed("nnfuzz fuzz --operators Add,MatMulI", 3) == ["Add,MatMulInteger"]
    assert "O3" in completed("nnfuzz verify x --level O", 4)
    assert completed("nnfuzz generate --exclude-d", 2) == ["--exclude-dtypes"]
    assert completed("nnfuzz fuzz --set exclude-d", 3) == ["exclude-dtypes="]
