"""A corpus under ONNX's own runner of backend tests, which is a suite of unittest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from onnx.backend.test.runner import Runner


def onnx_backend_test(backend: Any, folder: str | Path, **settings: Any) -> Runner:
    """ONNX's `BackendTest` of a backend, with the tests of a folder in place of ONNX's own.

        import onnxruntime.backend, nnfuzz
        globals().update(nnfuzz.onnx_backend_test(onnxruntime.backend, "models").test_cases)

    backend: what onnx.backend.base describes. folder: tests side by side, as `nnfuzz generate` and
    `nnfuzz select` write them; their data.json says which tolerances hold. settings: for
    `backend.prepare`, such as a level. Raises: OSError for a folder that cannot be read.
    """
    from onnx.backend.test import runner
    from onnx.backend.test.loader import load_model_tests

    from nnfuzz.corpus.layout import TestFolder, interface

    class Corpus(runner.Runner):
        """The runner with a tolerance for each output: its own knows a single one per model."""

        @classmethod
        def assert_similar_outputs(
            cls, ref_outputs: Any, outputs: Any, rtol: float, atol: float, model_dir: Any = None
        ) -> None:
            compare = super().assert_similar_outputs
            test = TestFolder(Path(model_dir), "")
            tolerances = [test.tolerances().of(name) for name in interface(test.model())[1]]
            if not len(tolerances) == len(outputs) == len(ref_outputs):
                compare(ref_outputs, outputs, rtol, atol, model_dir)
            for expected, actual, own in zip(ref_outputs, outputs, tolerances):
                pair = (own.rtol, own.atol) if own else (rtol, atol)
                compare([expected], [actual], *pair, model_dir)

    place = Path(folder).resolve()
    names = [path.parent.name for path in place.glob("*/model.onnx")]

    def loaded(kind: str) -> Any:
        return load_model_tests(str(place.parent), place.name) if kind == "simple" else []

    # The constructor has no other place for tests than ONNX's own folders.
    with mock.patch.object(runner, "load_model_tests", loaded):
        return Corpus(backend, test_kwargs={name: settings for name in names})
