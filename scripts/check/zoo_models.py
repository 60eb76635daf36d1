"""Makes the models of scripts/check/zoo.py: python scripts/check/zoo_models.py GROUP FOLDER.

Each group runs in the environment that has its libraries: trees and pipelines of scikit-learn in
the zoo's own, modules of PyTorch and quantised models in that of nnfuzz.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

OPSET = {"": 18, "ai.onnx.ml": 3}
Made = Iterator[tuple[str, Any]]
"""Names of models, and the models as onnx.ModelProto."""


# -- scikit-learn, LightGBM, XGBoost ---------------------------------------------------------------


def learned() -> Made:
    """Classifiers, regressors and pipelines as skl2onnx and onnxmltools convert them."""
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloats
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn import (
        cluster,
        compose,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_extraction,
        gaussian_process,
        impute,
        linear_model,
        mixture,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 6)).astype(np.float32)
    kinds, two, number = x[:, 0].round().astype(int) % 3, (x[:, 1] > 0).astype(int), x @ x[0]
    floats = [("x", FloatTensorType([None, 6]))]
    small = {"n_estimators": 12, "random_state": 0}
    for own, target in (
        (linear_model.LogisticRegression(), kinds),
        (linear_model.LogisticRegression(), np.array(["no", "yes"])[two]),
        (ensemble.RandomForestClassifier(**small), kinds),
        (ensemble.GradientBoostingClassifier(**small), two),
        (ensemble.GradientBoostingRegressor(**small), number),
        (ensemble.ExtraTreesRegressor(**small), number),
        (ensemble.AdaBoostClassifier(**small), kinds),
        (ensemble.IsolationForest(**small), None),
        (ensemble.VotingClassifier([("a", linear_model.LogisticRegression()),
                                    ("b", tree.DecisionTreeClassifier())], voting="soft",
                                   flatten_transform=False), kinds),
        (tree.DecisionTreeRegressor(max_depth=5), number),
        (svm.SVC(), kinds),
        (svm.SVR(), number),
        (neighbors.KNeighborsClassifier(), kinds),
        (neighbors.KNeighborsRegressor(), number),
        (neural_network.MLPClassifier((16,), max_iter=50), kinds),
        (naive_bayes.GaussianNB(), kinds),
        (discriminant_analysis.LinearDiscriminantAnalysis(), kinds),
        (gaussian_process.GaussianProcessRegressor(), number),
        (mixture.GaussianMixture(3, random_state=0), None),
        (cluster.KMeans(4, random_state=0), None),
        (pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3)), None),
        (pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.KBinsDiscretizer(4, encode="ordinal")), None),
        (pipeline.make_pipeline(preprocessing.PolynomialFeatures(), linear_model.Ridge()), number),
    ):  # fmt: skip
        own.fit(x, target)
        names = [step.__class__.__name__ for _, step in getattr(own, "steps", [("", own)])]
        name = "-".join(names) + ("-strings" if np.asarray(target).dtype.kind == "U" else "")
        yield f"sklearn-{name}", to_onnx(own, initial_types=floats, target_opset=OPSET)
    words = np.array(["red", "green", "blue"])[kinds].reshape(-1, 1).astype(object)
    text = [("s", StringTensorType([None, 1]))]
    for own in (preprocessing.OneHotEncoder(), preprocessing.OrdinalEncoder()):
        own.fit(words)
        yield f"sklearn-{type(own).__name__}", to_onnx(own, initial_types=text, target_opset=OPSET)
    both = compose.ColumnTransformer([("a", preprocessing.OneHotEncoder(), [1]),
                                      ("b", preprocessing.StandardScaler(), [0])])  # fmt: skip
    mixed = pipeline.make_pipeline(both, linear_model.LogisticRegression())
    mixed.fit(np.hstack([x[:, :1], words]), two)
    ends = [("x", FloatTensorType([None, 1])), ("s", StringTensorType([None, 1]))]
    yield "sklearn-ColumnTransformer", to_onnx(mixed, initial_types=ends, target_opset=OPSET)
    counts = feature_extraction.text.TfidfVectorizer().fit([f"a {w} day" for w in words[:, 0]])
    text = [("s", StringTensorType([None]))]
    yield "sklearn-TfidfVectorizer", to_onnx(counts, initial_types=text, target_opset=OPSET)
    ends = [("x", OtherFloats([None, 6]))]
    for library, classes in (("lightgbm", lightgbm), ("xgboost", xgboost)):
        prefix = {"lightgbm": "LGBM", "xgboost": "XGB"}[library]
        convert = getattr(onnxmltools, f"convert_{library}")
        for kind, target in (("Classifier", kinds), ("Classifier", two), ("Regressor", number)):
            own = getattr(classes, prefix + kind)(n_estimators=10, max_depth=4).fit(x, target)
            many = "-two" if target is two else ""
            yield f"{library}-{kind}{many}", convert(own, initial_types=ends, target_opset=15)


# -- PyTorch ---------------------------------------------------------------------------------------


def modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules of the kinds that people export, with example inputs."""
    import torch
    from torch import nn
    from torch.nn import functional

    def conv(i: int, o: int, k: int = 3, **more: Any) -> nn.Sequential:
        own = nn.Conv2d(i, o, k, padding=k // 2, bias=False, **more)
        return nn.Sequential(own, nn.BatchNorm2d(o), nn.ReLU())

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.a, self.b = conv(3, 16, 7, stride=2), conv(16, 16), conv(16, 16)
            self.head = nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            x = functional.max_pool2d(self.stem(x), 2)
            x = functional.relu(x + self.b(self.a(x)))
            return self.head(x.mean((2, 3)))

    class Squeeze(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.depth = conv(3, 24, 1), conv(24, 24, groups=24)
            self.gate, self.out = nn.Conv2d(24, 24, 1), nn.Conv2d(24, 8, 1)

        def forward(self, x: Any) -> Any:
            x = functional.hardswish(self.depth(self.wide(x)))
            scale = functional.hardsigmoid(self.gate(functional.adaptive_avg_pool2d(x, 1)))
            return functional.pixel_shuffle(self.out(x * scale), 2)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = conv(3, 8), conv(8, 16), conv(16, 4)
            self.up, self.end = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(4, 2, 1)

        def forward(self, x: Any) -> Any:
            skip = self.a(x)
            up = self.up(self.b(functional.avg_pool2d(skip, 2)))
            y = self.c(torch.cat([up, skip], 1))
            return self.end(functional.interpolate(y, scale_factor=2.0, mode="bilinear"))

    class Recurrent(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.cell = getattr(nn, kind)(16, 12, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(24, 5)

        def forward(self, ids: Any) -> Any:
            return functional.log_softmax(self.head(self.cell(self.embed(ids))[0]), -1)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(60, 32), nn.Embedding(16, 32)
            self.layer = nn.MultiheadAttention(32, 4, batch_first=True)
            self.norm, self.ff = nn.LayerNorm(32), nn.Sequential(nn.Linear(32, 64), nn.GELU())
            self.out = nn.Linear(64, 32)

        def forward(self, ids: Any, mask: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            x = self.norm(x + self.layer(x, x, x, key_padding_mask=mask == 0)[0])
            return torch.tanh(self.norm(x + self.out(self.ff(x)))[:, 0])

    class Decoder(nn.Module):
        """RMSNorm, rotary positions, causal attention, SwiGLU."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.scale = nn.Embedding(60, 32), nn.Parameter(torch.ones(32))
            self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
            self.gate, self.up = nn.Linear(32, 64), nn.Linear(32, 64)
            self.down, self.head = nn.Linear(64, 32), nn.Linear(32, 60)

        def norm(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale

        def turned(self, x: Any) -> Any:
            angle = torch.arange(x.shape[-2])[:, None] / 100 ** (torch.arange(4) / 4)
            a, b = x.chunk(2, -1)
            return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()],
                             -1)  # fmt: skip

        def forward(self, ids: Any) -> Any:
            x = self.words(ids)
            parts = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (p.reshape(*ids.shape, 4, 8).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(
                self.turned(q), self.turned(k), v, is_causal=True)  # fmt: skip
            x = x + self.out(y.transpose(1, 2).reshape(*ids.shape, 32))
            h = self.norm(x)
            return self.head(x + self.down(functional.silu(self.gate(h)) * self.up(h)))

    class Patches(nn.Module):
        """A vision transformer with shifted windows."""

        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(3, 32, 4, 4)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
            self.head = nn.Linear(32, 7)

        def forward(self, x: Any) -> Any:
            x = torch.roll(self.cut(x), (1, 1), (2, 3)).flatten(2).transpose(1, 2)
            return self.head(self.layer(x).mean(1)).softmax(-1)

    class Sound(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv1d(1, 8, 9, 4), nn.Conv1d(8, 8, 3, padding=2, dilation=2)
            self.norm, self.gru = nn.GroupNorm(2, 8), nn.GRU(8, 6)

        def forward(self, x: Any) -> Any:
            y = functional.leaky_relu(self.norm(self.b(functional.elu(self.a(x)))))
            return self.gru(y.permute(2, 0, 1))[1].sigmoid()

    class Detector(nn.Module):
        """Boxes and scores as ONNX's NonMaxSuppression takes them."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.boxes = conv(3, 16, stride=2), nn.Conv2d(16, 4, 1)
            self.scores = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            x = self.body(x)
            a = self.boxes(x).flatten(2).transpose(1, 2).sigmoid()
            low, size = a.split(2, -1)
            return torch.cat([low, low + size], -1), self.scores(x).flatten(2).softmax(1)

    image, ids = torch.rand(1, 3, 32, 32), torch.randint(0, 50, (2, 12))
    mask = torch.cat([torch.ones(2, 9), torch.zeros(2, 3)], 1).long()
    return {
        "residual": (Residual(), (image,)), "squeeze": (Squeeze(), (image,)),
        "unet": (UNet(), (image,)), "lstm": (Recurrent("LSTM"), (ids,)),
        "gru": (Recurrent("GRU"), (ids,)), "encoder": (Encoder(), (ids, mask)),
        "decoder": (Decoder(), (ids,)), "patches": (Patches(), (image,)),
        "sound": (Sound(), (torch.randn(1, 1, 400),)), "detector": (Detector(), (image,)),
    }  # fmt: skip


def exported() -> Made:
    """The modules as both of PyTorch's exporters write them, and quantised forms of some."""
    import onnx
    import torch

    torch.manual_seed(0)
    for name, (module, inputs) in modules().items():
        for new in (False, True):
            file = Path(sys.argv[2], f"torch-{name}-{'dynamo' if new else 'script'}.onnx")
            module.eval()
            torch.onnx.export(module, inputs, str(file), dynamo=new, external_data=False,
                              **{} if new else {"opset_version": 17})  # fmt: skip
            if new:
                continue
            model = onnx.load(file)
            if name == "detector":
                yield "torch-detector-nms", _with_suppression(model)
            if name in ("residual", "unet", "lstm", "encoder", "sound"):
                yield from _quantised(name, file, inputs)


def _with_suppression(model: Any) -> Any:
    """The detector, with the boxes that are kept, whose number is known only when it runs."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    boxes, scores = (output.name for output in graph.output)
    for name, value in (("most", np.int64([5])), ("iou", np.float32([0.5])),
                        ("least", np.float32([0.3])), ("last", np.int64([2]))):  # fmt: skip
        graph.initializer.append(numpy_helper.from_array(value, name))
    graph.node.append(helper.make_node("NonMaxSuppression", [boxes, scores, "most", "iou", "least"],
                                       ["chosen"]))  # fmt: skip
    graph.node.append(helper.make_node("Gather", ["chosen", "last"], ["at"], axis=1))
    graph.node.append(helper.make_node("Gather", [boxes, "at"], ["kept"], axis=1))
    graph.output.append(helper.make_tensor_value_info("kept", TensorProto.FLOAT, None))
    return model


def _quantised(name: str, file: Path, inputs: Any) -> Made:
    """A model in the three forms that onnxruntime.quantization writes."""
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization import QuantFormat, QuantType, quant_pre_process

    names = [value.name for value in onnx.load(file).graph.input]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{n: a.numpy() for n, a in zip(names, inputs)}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    ready, out = file.with_suffix(".pre"), file.with_suffix(".q")
    quant_pre_process(str(file), str(ready), skip_symbolic_shape=True)
    quantization.quantize_dynamic(str(ready), str(out))
    yield f"quantised-{name}-dynamic", onnx.load(out)
    for form, kind in (
        (QuantFormat.QDQ, QuantType.QInt8),
        (QuantFormat.QOperator, QuantType.QUInt8),
    ):
        quantization.quantize_static(str(ready), str(out), Reader(), quant_format=form,
                                     per_channel=kind is QuantType.QInt8, activation_type=kind)  # fmt: skip
        yield f"quantised-{name}-{form.name}", onnx.load(out)
    ready.unlink(), out.unlink()


# -- written by hand -------------------------------------------------------------------------------


def written() -> Made:
    """Sequences, strings, loops and the like, and a large model of 5,000 nodes and 100 MB."""
    from onnx import TensorProto, helper, numpy_helper, parser

    def parsed(text: str, opset: int = 18) -> Any:
        head = f'<ir_version: 8, opset_import: ["" : {opset}, "ai.onnx.ml" : 3]>'
        return parser.parse_model(f"{head} g {text}")

    yield (
        "sequences",
        parsed("""(float[4,3] x) => (seq(float[2,3]) s, float[4,3] y, int64 n) {
        two = Constant<value = int64 {2}>()  first = Constant<value = int64 {0}>()
        a = SplitToSequence<axis = 0>(x, two)  b = Relu(x)  s = SequenceInsert(a, b, first)
        n = SequenceLength(s)  y = ConcatFromSequence<axis = 0>(a) }"""),
    )
    yield (
        "strings",
        parsed("""(string[N] s) => (string[M] t, int64[M] n, float[M] f) {
        t = StringNormalizer<case_change_action = "LOWER", is_case_sensitive = 0,
            stopwords = ["the"], locale = "C">(s)
        n = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [3, 4],
            default_int64 = -1>(t)
        f = Cast<to = 1>(n) }"""),
    )
    yield (
        "range",
        parsed("""(int64 a, int64 b, int64 d) => (int64[N] r, float[N] y) {
        r = Range(a, b, d)  z = Cast<to = 1>(r)  y = Sin(z) }"""),
    )
    yield (
        "loop",
        parsed("""(float[3] x, int64 n) => (float[3] y, float[N,3] ys) {
        t = Constant<value = bool {1}>()
        y, ys = Loop(n, t, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] o)
            { d = Identity(c)  o = Sin(v)  w = Add(v, o) }> }"""),
    )
    yield "empty", parsed("(float[0,3] x) => (float[2,3] y, float[1,3] m) {"
                          " c = Constant<value = float[2,3] {1,2,3,4,5,6}>()"
                          " y = Concat<axis = 0>(x, c)  m = ReduceSum(y) }", 18)  # fmt: skip
    yield (
        "map-of-features",
        parsed("""(float[N,3] x) => (seq(map(string, float)) z, int64[N] l) {
        l, p = ai.onnx.ml.LinearClassifier<coefficients = [1.0,2.0,3.0,-1.0,0.5,1.5],
            intercepts = [0.1,0.2], classlabels_ints = [0,1], post_transform = "SOFTMAX">(x)
        z = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(p) }"""),
    )
    rng, name, nodes, weights = np.random.default_rng(0), "x", [], []
    for i in range(1666):
        weight = (rng.standard_normal((122, 122)) / 11).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes += [helper.make_node("MatMul", [name, f"w{i}"], [f"m{i}"]),
                  helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]),
                  helper.make_node("Add", [f"t{i}", name if i % 2 else "x"], [f"a{i}"])]  # fmt: skip
        name = f"a{i}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 122]) for n in ("x", name)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    yield (
        "large",
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
    )


GROUPS = {"learned": learned, "exported": exported, "written": written}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import onnx

    for made, model in GROUPS[sys.argv[1]]():
        onnx.save(model, str(Path(sys.argv[2], f"{made}.onnx")))
