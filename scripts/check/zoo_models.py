"""Makes the models of scripts/check/zoo.py: python scripts/check/zoo_models.py GROUP FOLDER.

Each group runs in the environment that has its libraries: trees and pipelines of scikit-learn in
the zoo's own, modules of PyTorch and quantised models in that of nnfuzz.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

Made = Iterator[tuple[str, Any]]
"""Names of models, and the models as onnx.ModelProto."""
OPSET = {"": 18, "ai.onnx.ml": 3}
LEARNED = """
linear_model.LogisticRegression() | kinds
linear_model.LogisticRegression() | names
discriminant_analysis.LinearDiscriminantAnalysis() | kinds
ensemble.RandomForestClassifier(12) | kinds
ensemble.GradientBoostingClassifier(n_estimators=12) | two
ensemble.GradientBoostingRegressor(n_estimators=12) | number
ensemble.ExtraTreesRegressor(12) | number
ensemble.AdaBoostClassifier(n_estimators=12) | kinds
ensemble.IsolationForest(n_estimators=12) | none
tree.DecisionTreeRegressor(max_depth=5) | number
svm.SVC() | kinds
svm.SVR() | number
neighbors.KNeighborsClassifier() | kinds
neighbors.KNeighborsRegressor() | number
neural_network.MLPClassifier((16,), max_iter=50) | kinds
naive_bayes.GaussianNB() | kinds
gaussian_process.GaussianProcessRegressor() | number
mixture.GaussianMixture(3) | none
cluster.KMeans(4) | none
pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3)) | none
pipeline.make_pipeline(preprocessing.PolynomialFeatures(), linear_model.Ridge()) | number
pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.KBinsDiscretizer(encode="ordinal")) | none
preprocessing.OneHotEncoder() | words
preprocessing.OrdinalEncoder() | words
feature_extraction.text.TfidfVectorizer() | text
"""  # noqa: E501


def learned() -> Made:
    """Classifiers, regressors and pipelines as skl2onnx and onnxmltools convert them."""
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloats
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    names = {word.partition(".")[0] for word in LEARNED.replace("(", " ").split() if "." in word}
    sklearn = {name: import_module(f"sklearn.{name}") for name in names if name.isidentifier()}
    import_module("sklearn.feature_extraction.text")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 6)).astype(np.float32)
    kinds, two, number = x[:, 0].round().astype(int) % 3, (x[:, 1] > 0).astype(int), x @ x[0]
    words = np.array(["red", "green", "blue"])[kinds].astype(object)
    targets = {"kinds": kinds, "two": two, "number": number, "names": words.astype(str)}
    for i, line in enumerate(LEARNED.strip().splitlines()):
        text, kind = line.split(" | ")
        own, options = eval(text, sklearn), {}
        if kind in ("words", "text"):
            shape = [None, 1] if kind == "words" else [None]
            ends = [("s", StringTensorType(shape))]
            own.fit(words.reshape(-1, 1) if kind == "words" else words)
            options = {id(own): {"locale": "C"}} if kind == "text" else {}
        else:
            ends = [("x", FloatTensorType([None, 6]))]
            own.fit(x, targets.get(kind))
        steps = [step for _, step in getattr(own, "steps", [("", own)])]
        name = "-".join(type(step).__name__ for step in steps)
        yield (
            f"sklearn-{i}-{name}",
            to_onnx(own, initial_types=ends, target_opset=OPSET, options=options),
        )
    for library, prefix in ((lightgbm, "LGBM"), (xgboost, "XGB")):
        convert = getattr(onnxmltools, f"convert_{library.__name__}")
        for kind, target in (("Classifier", kinds), ("Classifier", two), ("Regressor", number)):
            own = getattr(library, prefix + kind)(n_estimators=10, max_depth=4).fit(x, target)
            model = convert(own, initial_types=[("x", OtherFloats([None, 6]))], target_opset=15)
            yield f"{library.__name__}-{kind}{'-two' if target is two else ''}", model


def modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules of the kinds that people export, with example inputs."""
    import torch
    from torch import nn
    from torch.nn import functional as f

    def made(forward: Callable[..., Any], **parts: nn.Module) -> nn.Module:
        kind = type("Own", (nn.Module,), {"forward": lambda self, *x: forward(self, *x)})
        own = kind()
        for name, part in parts.items():
            setattr(own, name, part)
        return own

    def conv(i: int, o: int, k: int = 3, **more: Any) -> nn.Sequential:
        own = nn.Conv2d(i, o, k, padding=k // 2, bias=False, **more)
        return nn.Sequential(own, nn.BatchNorm2d(o), nn.ReLU())

    def residual(m: Any, x: Any) -> Any:
        x = f.max_pool2d(m.stem(x), 2)
        return m.head(f.relu(x + m.b(m.a(x))).mean((2, 3)))

    def unet(m: Any, x: Any) -> Any:
        skip = m.a(x)
        y = m.c(torch.cat([m.up(m.b(f.avg_pool2d(skip, 2))), skip], 1))
        return m.end(f.interpolate(y, scale_factor=2.0, mode="bilinear"))

    def encoder(m: Any, ids: Any, mask: Any) -> Any:
        x = m.words(ids) + m.places(torch.arange(ids.shape[1]))
        x = m.norm(x + m.layer(x, x, x, key_padding_mask=mask == 0)[0])
        return torch.tanh(m.norm(x + m.out(f.gelu(m.wide(x))))[:, 0])

    def decoder(m: Any, ids: Any) -> Any:  # RMSNorm, rotary positions, causal attention, SwiGLU
        def norm(x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

        def turned(x: Any) -> Any:
            angle = torch.arange(x.shape[-2])[:, None] / 100 ** (torch.arange(4) / 4)
            (a, b), c, s = x.chunk(2, -1), angle.cos(), angle.sin()
            return torch.cat([a * c - b * s, b * c + a * s], -1)

        x = m.words(ids)
        parts = m.qkv(norm(x)).chunk(3, -1)
        q, k, v = (p.reshape(*ids.shape, 4, 8).transpose(1, 2) for p in parts)
        y = f.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + m.out(y.transpose(1, 2).reshape(*ids.shape, 32))
        return m.head(x + m.down(f.silu(m.gate(norm(x))) * m.up(norm(x))))

    def detector(m: Any, x: Any) -> Any:
        x = m.body(x)
        low, size = m.boxes(x).flatten(2).transpose(1, 2).sigmoid().split(2, -1)
        return torch.cat([low, low + size], -1), m.scores(x).flatten(2).softmax(1)

    image, ids = torch.rand(1, 3, 32, 32), torch.randint(0, 50, (2, 12))
    mask = (torch.arange(12) < 9).long().repeat(2, 1)
    line, rnn, both = nn.Linear, {"batch_first": True, "bidirectional": True}, nn.Embedding
    attention = nn.MultiheadAttention(32, 4, batch_first=True)
    own = {
        "residual": (residual, [image], {"stem": conv(3, 16, 7, stride=2), "a": conv(16, 16),
                                         "b": conv(16, 16), "head": line(16, 10)}),
        "unet": (unet, [image], {"a": conv(3, 8), "b": conv(8, 16), "c": conv(16, 4),
                                 "up": nn.ConvTranspose2d(16, 8, 2, 2), "end": nn.Conv2d(4, 2, 1)}),
        **{kind.lower(): (lambda m, ids: f.log_softmax(m.head(m.cell(m.embed(ids))[0]), -1), [ids],
                          {"embed": both(50, 16), "cell": getattr(nn, kind)(16, 12, 2, **rnn),
                           "head": line(24, 5)}) for kind in ("LSTM", "GRU")},
        "encoder": (encoder, [ids, mask], {"words": both(60, 32), "places": both(16, 32),
                                           "layer": attention, "norm": nn.LayerNorm(32),
                                           "wide": line(32, 64), "out": line(64, 32)}),
        "decoder": (decoder, [ids], {"words": both(60, 32), "qkv": line(32, 96),
                                     "out": line(32, 32), "gate": line(32, 64), "up": line(32, 64),
                                     "down": line(64, 32), "head": line(32, 60)}),
        "detector": (detector, [image], {"body": conv(3, 16, stride=2),
                                         "boxes": nn.Conv2d(16, 4, 1),
                                         "scores": nn.Conv2d(16, 2, 1)}),
    }  # fmt: skip
    return {name: (made(g, **parts), tuple(inputs)) for name, (g, inputs, parts) in own.items()}


def exported() -> Made:
    """The modules as both of PyTorch's exporters write them, and quantised forms of some."""
    import torch

    torch.manual_seed(0)
    for name, (module, inputs) in modules().items():
        for suffix, more in (("dynamo", {"dynamo": True}), ("script", {"opset_version": 17})):
            file = Path(sys.argv[2], f"torch-{name}-{suffix}.onnx")
            more = {"dynamo": False, "external_data": False, **more}
            torch.onnx.export(module.eval(), inputs, str(file), **more)
        if name == "detector":
            yield "torch-detector-nms", with_suppression(onnx.load(file))
        if name in ("residual", "unet", "lstm", "encoder"):
            yield from quantised(name, file, inputs)


def with_suppression(model: Any) -> Any:
    """The detector, with the boxes that are kept, whose number is known only when it runs."""
    graph = model.graph
    boxes, scores = (output.name for output in graph.output)
    given = {"most": np.int64([5]), "iou": np.float32([0.5]), "least": np.float32([0.3])}
    for name, value in {**given, "last": np.int64([2])}.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    node = helper.make_node
    graph.node.append(node("NonMaxSuppression", [boxes, scores, *given], ["chosen"]))
    graph.node.append(node("Gather", ["chosen", "last"], ["at"], axis=1))
    graph.node.append(node("Gather", [boxes, "at"], ["kept"], axis=1))
    graph.output.append(helper.make_tensor_value_info("kept", TensorProto.FLOAT, None))
    return model


def quantised(name: str, file: Path, inputs: Any) -> Made:
    """A model in the three forms that onnxruntime.quantization writes."""
    from onnxruntime import quantization as own

    class Reader(own.CalibrationDataReader):
        def __init__(self) -> None:
            names = [value.name for value in onnx.load(file).graph.input]
            self.left = [{n: a.numpy() for n, a in zip(names, inputs)}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    ready, out = str(file.with_suffix(".pre")), str(file.with_suffix(".q"))
    own.quant_pre_process(str(file), ready, skip_symbolic_shape=True)
    own.quantize_dynamic(ready, out)
    yield f"quantised-{name}-dynamic", onnx.load(out)
    for form, kind in (("QDQ", own.QuantType.QInt8), ("QOperator", own.QuantType.QUInt8)):
        more = {"quant_format": own.QuantFormat[form], "per_channel": form == "QDQ"}
        own.quantize_static(ready, out, Reader(), activation_type=kind, **more)
        yield f"quantised-{name}-{form}", onnx.load(out)
    for left in (ready, out):
        Path(left).unlink()


WRITTEN = {
    "sequences": """(float[4,3] x) => (seq(float[2,3]) s, float[4,3] y, int64 n) {
        two = Constant<value = int64 {2}>()  first = Constant<value = int64 {0}>()
        a = SplitToSequence<axis = 0>(x, two)  b = Relu(x)  s = SequenceInsert(a, b, first)
        n = SequenceLength(s)  y = ConcatFromSequence<axis = 0>(a) }""",
    "strings": """(string[N] s) => (string[M] t, int64[M] n, float[M] f) {
        t = StringNormalizer<case_change_action = "LOWER", locale = "C", stopwords = ["the"]>(s)
        n = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [3, 4]>(t)
        f = Cast<to = 1>(n) }""",
    "range": """(int64 a, int64 b, int64 d) => (int64[N] r, float[N] y) {
        r = Range(a, b, d)  z = Cast<to = 1>(r)  y = Sin(z) }""",
    "loop": """(float[3] x, int64 n) => (float[3] y, float[N,3] ys) {
        t = Constant<value = bool {1}>()  y, ys = Loop(n, t, x)
        <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] o) {
            d = Identity(c)  o = Sin(v)  w = Add(v, o) }> }""",
    "empty": """(float[0,3] x) => (float[2,3] y, float[1,1] m) {
        c = Constant<value = float[2,3] {1,2,3,4,5,6}>()
        y = Concat<axis = 0>(x, c)  m = ReduceSum(y) }""",
    "maps": """(float[N,3] x) => (seq(map(string, float)) z, int64[N] l) {
        l, p = ai.onnx.ml.LinearClassifier<coefficients = [1.0,2.0,3.0,-1.0,0.5,1.5],
            intercepts = [0.1,0.2], classlabels_ints = [0,1], post_transform = "SOFTMAX">(x)
        z = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(p) }""",
}


def written() -> Made:
    """Sequences, strings, loops and the like, and a large model of 5,000 nodes and 100 MB."""
    for name, text in WRITTEN.items():
        head = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
        yield name, parser.parse_model(f"{head} g {text}")
    rng, value, nodes, weights = np.random.default_rng(0), "x", [], []
    for i in range(1666):
        weight = (rng.standard_normal((122, 122)) / 11).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        read = value if i % 2 else "x"
        for kind, reads in (
            ("MatMul", [value, f"w{i}"]),
            ("Tanh", [f"m{i}"]),
            ("Add", [f"t{i}", read]),
        ):
            value = f"{kind[0].lower()}{i}"
            nodes.append(helper.make_node(kind, reads, [value]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 122]) for n in ("x", value)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    yield "large", helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    groups = {"learned": learned, "exported": exported, "written": written}
    for made_name, model in groups[sys.argv[1]]():
        onnx.save(model, str(Path(sys.argv[2], f"{made_name}.onnx")))
