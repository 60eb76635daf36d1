"""ONNX's own runner of backend tests, with ONNX Runtime's own backend."""

import io
import re
import unittest
from pathlib import Path

import pytest

from nnfuzz import onnx_backend_test

backend = pytest.importorskip("onnxruntime.backend")


def outcome(folder, **settings):
    suite = onnx_backend_test(backend, folder, **settings).test_suite
    return unittest.TextTestRunner(stream=io.StringIO()).run(suite)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_every_model_passes_at_every_level(corpus, level):
    import onnxruntime

    chosen = getattr(onnxruntime.GraphOptimizationLevel, level)
    found = outcome(corpus, graph_optimization_level=chosen)
    assert not found.failures and not found.errors
    assert found.testsRun - len(found.skipped) == 4  # the others are for CUDA


def test_a_planted_failure_is_seen(spoiled):
    folder, name = spoiled
    found = outcome(folder)
    assert not found.errors
    assert [test.id().rpartition(".")[2] for test, _ in found.failures] == [f"{name}_cpu"]


def test_the_example_of_the_docs_is_a_suite_for_unittest(corpus, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(corpus)
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "CORPUS.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    found: dict[str, object] = {}
    exec(block, found)
    case = found["OnnxBackendSimpleModelTest"]
    assert issubclass(case, unittest.TestCase)
    assert sum(name.endswith("_cpu") for name in vars(case)) == 4


def test_the_runner_is_left_as_it_was(corpus):
    from onnx.backend.test import loader, runner

    onnx_backend_test(backend, corpus)
    assert runner.load_model_tests is loader.load_model_tests
