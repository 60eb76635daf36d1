"""Settings of ONNX Runtime that no optimisation level changes. Drawn pipelines consist of them.

A step is "no-NAME", which leaves out an optimiser or rewrite rule, or "NAME=VALUE": an attribute of
SessionOptions, an entry of its configuration (with a dot in the name), or how the session is used.
docs/PIPELINES.md lists the settings that are not drawn, and the reasons.
"""

from __future__ import annotations

from random import Random
from typing import Any

from nnfuzz.backend.contract import Override
from nnfuzz.backend.target import DEFAULT, Pipeline

WIDE = "session.x64quantprecision=1"
OVERRIDES = (
    Override(
        "session.qdq_matmulnbits_accuracy_level=1",
        "by default MatMulNBits rounds activations to int8 beside block-quantised weights",
    ),
    Override(
        "session.disable_double_qdq_remover=1",
        "DoubleQDQPairsRemover makes one pair of two, with another scale and one rounding less",
    ),
    Override("no-WeightBiasQuantization", "it quantises float weights and biases to integers"),
    Override(
        WIDE,
        "by default sums of int8 products saturate at 16 bits on x64 processors without VNNI",
    ),
    Override("use_tf32=0", "CUDA computes products of float32 in TF32 by default"),
    Override("intra_op_num_threads=1", "results do not depend on the machine", exact=False),
)
_RULES = (
    *("CastElimination", "ConvAddFusion", "ConvBNFusion", "ConvMulFusion", "DivMulFusion"),
    *("EliminateIdentity", "EliminateSlice", "ExpandElimination", "FuseReluClip", "GemmSumFusion"),
    *("GemmTransposeFusion", "MatMul_BatchNormalization_Fusion", "NoopElimination"),
    *("NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "UnsqueezeElimination"),
    *("ClipQuantRewrite", "ReluQuantRewrite"),
)
_TRANSFORMERS = (
    *("Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "ConstantSharing"),
    *("CommonSubexpressionElimination", "ConstantFolding", "MatMulAddFusion", "ReshapeFusion"),
    *("SliceConcatToSpaceToDepthFusion", "GeluFusionL1", "GeluFusionL2", "LayerNormFusionL1"),
    *("LayerNormFusionL2", "QDQPropagationTransformer", "WeightBiasQuantization"),
    *("WhereDummyDq", "TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider"),
    *("QDQS8ToU8Transformer", "QDQSelectorActionTransformer", "GemmActivationFusion"),
    *("MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion"),
    *("SimplifiedLayerNormFusion", "GatherSliceToSplitFusion", "GatherToSliceFusion"),
    *("MatmulTransposeFusion", "BiasGeluFusion", "SkipLayerNormFusion", "QuickGeluFusion"),
    *("BiasSoftmaxFusion", "MatMulScaleFusion", "MatMulActivationFusion", "NchwcTransformer"),
    *("NhwcTransformer", "ConvAddActivationFusion", "AttentionFusion", "EmbedLayerNormFusion"),
    *("BiasSkipLayerNormFusion", "FastGeluFusion", "MatMulNBitsFusion", "DQMatMulNBitsFusion"),
)
_SWITCHES = {
    "buffers": ("bound",),
    "enable_mem_pattern": ("0",),
    "enable_mem_reuse": ("0",),
    "enable_cpu_mem_arena": ("0",),
    "execution_mode": ("parallel",),
    "intra_op_num_threads": ("2",),
    "use_deterministic_compute": ("1",),
    "free_dimensions": ("given",),
    "layout": ("only",),
    "session.disable_aot_function_inlining": ("1",),
    "session.disable_prepacking": ("1",),
    "session.disable_qdq_constant_folding": ("1",),
    "session.disable_quant_qdq": ("1",),
    "session.dynamic_block_base": ("4",),
    "session.enable_dq_matmulnbits_fusion": ("1",),
    "session.graph_optimizations_loop_level": ("0", "2"),
    "session.use_device_allocator_for_initializers": ("1",),
}
STEPS = (
    *(f"no-{name}" for name in (*_RULES, *_TRANSFORMERS)),
    *(f"{name}={value}" for name, values in _SWITCHES.items() for value in values),
)
FREE, BOUND = "free_dimensions=given", "buffers=bound"
_MOST_OFF, _MOST_SWITCHES = 4, 3
"""Most steps of a pipeline: enough for combinations, and few enough for one line."""


def draw(rng: Random) -> Pipeline:
    """Draws a level, some optimisers to leave out, and some settings."""
    level = rng.choice(("O1", "O2", "O3", "O3", "O3"))
    off = rng.sample((*_RULES, *_TRANSFORMERS), rng.randint(0, _MOST_OFF))
    names = rng.sample(list(_SWITCHES), rng.randint(0 if off else 1, _MOST_SWITCHES))
    switches = [f"{name}={rng.choice(_SWITCHES[name])}" for name in names]
    return Pipeline(level, (*(f"no-{name}" for name in off), *switches))


def all_steps(pipeline: Pipeline) -> tuple[str, ...]:
    """The steps of a pipeline, behind the exact ones unless it is of the level DEFAULT."""
    exact = (own.step for own in OVERRIDES if own.exact and pipeline.level != DEFAULT)
    return (*exact, *pipeline.steps)


def switched_off(steps: Any) -> list[str]:
    """The optimisers and rules that the steps leave out."""
    return [step.removeprefix("no-") for step in steps if step.startswith("no-")]


def configure(options: Any, steps: Any) -> None:
    """Applies the steps to an onnxruntime.SessionOptions, but those that a release does not have:
    it ignores the names of optimisers and entries that it does not know, too.
    """
    for name, _, value in (step.partition("=") for step in steps if "=" in step):
        if "." in name:
            options.add_session_config_entry(name, value)
        elif name == "execution_mode":
            options.execution_mode = type(options.execution_mode).ORT_PARALLEL
            options.inter_op_num_threads = 2
        elif name == "layout":
            levels, usual = type(options.graph_optimization_level), options.graph_optimization_level
            options.graph_optimization_level = getattr(levels, "ORT_ENABLE_LAYOUT", usual)
        elif hasattr(options, name):  # not free_dimensions, buffers or use_tf32
            setattr(options, name, int(value) if name.endswith("threads") else value == "1")


OFF = "optimization.disable_specified_optimizers"
EXACT = (
    *((k, v) for k, _, v in (step.partition("=") for step in all_steps(Pipeline(""))) if "." in k),
    (OFF, ";".join(switched_off(all_steps(Pipeline(""))))),
)
"""The exact settings as entries of a session's configuration, for scripts."""


def free_sizes(session: Any, inputs: Any) -> dict[str, int]:
    """Sizes of a session's symbolic dimensions by name, taken from the inputs."""
    return {
        name: size
        for value in session.get_inputs()
        if value.type.startswith("tensor")
        for name, size in zip(value.shape, inputs[value.name].shape)
        if isinstance(name, str)
    }
