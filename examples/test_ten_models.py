"""A test of a compiler with ten models that nobody has written: pytest test_ten_models.py

They are the same in every run; another seed gives ten others.
"""

from collections.abc import Iterator

import pytest

import nnfuzz

MODELS = nnfuzz.Generator(seed=1, nodes=5)


@pytest.fixture(scope="module")
def run() -> Iterator[nnfuzz.Experiment]:
    with nnfuzz.Experiment(["onnxruntime"]) as experiment:
        yield experiment


@pytest.mark.parametrize("index", range(10))
def test_the_compiler_is_right(run: nnfuzz.Experiment, index: int) -> None:
    try:
        case = MODELS[index]
    except nnfuzz.NoTestCase as error:  # few indexes give none
        pytest.skip(str(error))
    result = run(case)
    if not result.compared:  # ONNX leaves the outputs of a few models undefined
        pytest.skip(str(result))
    assert result.ok, result
