"""Model optimisers and converters. nnfuzz.backends.transform describes the contract."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from .issue_forms import (
    ONNX,
    ONNX_RUNTIME,
    ONNXOPTIMIZER,
    ONNXSCRIPT,
    ONNXSIM,
    ONNXSLIM,
)
from .onnxruntime_options import EXACT
from .transform import Transform

_UNKNOWN = re.compile(r"(Type unknown for).*")


class OnnxOptimizer(Transform):
    """onnxoptimizer with all passes that fuse or eliminate."""

    name = "onnxoptimizer"
    issue_form = ONNXOPTIMIZER
    preload = ("onnxoptimizer", "onnxruntime")

    @staticmethod
    def transform(model, without):
        import onnxoptimizer

        names = onnxoptimizer.get_fuse_and_elimination_passes()
        return onnxoptimizer.optimize(model, [name for name in names if name not in without])

    @classmethod
    def passes(cls):
        import onnxoptimizer

        return [n for n in onnxoptimizer.get_fuse_and_elimination_passes() if n != "nop"]


class OnnxSlim(Transform):
    """onnxslim; its passes, from 0.1.40 on, are optimisations and fusion patterns."""

    name = "onnxslim"
    issue_form = ONNXSLIM
    preload = ("onnxslim", "onnxruntime")

    @staticmethod
    def transform(model, without):
        import onnxslim

        off = list(without)
        names = ("skip_optimizations", "skip_fusion_patterns") if off else ()
        return onnxslim.slim(model, **dict.fromkeys(names, off))

    @classmethod
    def passes(cls):
        try:
            from onnxslim.core.optimization import OptimizationSettings, get_fusion_patterns
        except ImportError:
            return []
        return [*OptimizationSettings.keys(), *get_fusion_patterns()]


class OnnxSim(Transform):
    """The simplifier onnxsim."""

    name = "onnxsim"
    issue_form = ONNXSIM
    preload = ("onnxsim", "onnxruntime")

    @staticmethod
    def transform(model, without):
        import onnxsim

        return onnxsim.simplify(model, skipped_optimizers=list(without))[0]

    @classmethod
    def passes(cls):
        from onnxsim import onnx_simplifier

        return [name for name in onnx_simplifier.C._list_optimizers() if name != "nop"]


class OnnxScript(Transform):
    """The optimizer of onnxscript."""

    name = "onnxscript"
    issue_form = ONNXSCRIPT
    preload = ("onnxscript", "onnxscript.optimizer", "onnxruntime")

    @staticmethod
    def transform(model, without):
        from onnxscript import optimizer

        return optimizer.optimize(model)


class OnnxScriptVersion(Transform):
    """The version converter of onnxscript, from its lowest opset to ONNX Runtime's newest."""

    name = "onnxscript-version"
    issue_form = ONNXSCRIPT
    preload = ("onnxscript", "onnxscript.version_converter", "onnxruntime")
    preferred_opset = 18

    @staticmethod
    def transform(model, without):
        from onnxscript import ir, version_converter

        # Given a ModelProto, it converts the graph but keeps the old opset (onnxscript 0.7.2).
        converted = ir.from_proto(model)
        version_converter.convert_version(converted, 25)
        return ir.to_proto(converted)


class OnnxVersion(Transform):
    """The version converter of onnx, to opset 25."""

    name = "onnx-version"
    issue_form = ONNX
    preload = ("onnx", "onnx.version_converter", "onnxruntime")
    preferred_opset = 18

    @staticmethod
    def transform(model, without):
        from onnx import version_converter

        return version_converter.convert_version(model, 25)


class OnnxInliner(Transform):
    """onnx.inliner: operators are replaced by the function bodies in their schemas."""

    name = "onnx-inliner"
    issue_form = ONNX
    preload = ("onnx", "onnx.inliner", "onnxruntime")

    @classmethod
    def complaint(cls, error):
        """Leaves out the name of a value of unknown type, because names in function bodies vary."""
        complaint = super().complaint(error)
        subject = _UNKNOWN.sub(r"\1 a value", complaint.subject)
        return replace(complaint, subject=subject)

    @staticmethod
    def transform(model, without):
        from onnx import inliner

        return inliner.inline_selected_functions(
            model, [], exclude=True, inline_schema_functions=True
        )


class OrtTransformers(Transform):
    """The fusions of onnxruntime.transformers, without ONNX Runtime's own optimiser."""

    name = "ort-transformers"
    issue_form = ONNX_RUNTIME
    preload = ("onnxruntime", "onnxruntime.transformers.optimizer")
    standard = False

    @staticmethod
    def transform(model, without):
        import tempfile

        import onnx
        from onnxruntime.transformers import optimizer

        optimised = optimizer.optimize_model(model, opt_level=0)
        with tempfile.TemporaryDirectory() as folder:
            optimised.save_model_to_file(f"{folder}/model.onnx")  # sorts nodes, adds domains
            return onnx.load(f"{folder}/model.onnx")


class OrtSaved(Transform):
    """The optimised model that ONNX Runtime saves; level "none" optimises in memory instead."""

    name = "ort-saved"
    standard = False
    issue_form = ONNX_RUNTIME
    preload = ("onnxruntime",)
    optimisation: ClassVar = {"none": "ORT_ENABLE_ALL", "all": "ORT_DISABLE_ALL"}

    @staticmethod
    def transform(model, without):
        import tempfile

        import onnx
        import onnxruntime as ort

        options = ort.SessionOptions()
        for key, value in EXACT:
            options.add_session_config_entry(key, value)
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = f"{folder}/model.onnx"
            ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return onnx.load(options.optimized_model_filepath)
