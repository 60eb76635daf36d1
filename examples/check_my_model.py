"""Do two compilers compute my model right? python check_my_model.py MODEL.onnx [COMPILER ...]

Right is what lies in the envelope: an interval around a float64 reference, with room for the
rounding errors that a correct compiler may make, and no more.
"""

import sys

import nnfuzz

if __name__ == "__main__":
    path, *compilers = sys.argv[1:]
    # Inputs are searched under which no value is NaN or infinite. To choose them yourself:
    # TestCase.from_onnx(path, {"image": numpy.zeros((1, 3, 8, 8), "float32")})
    try:
        case = nnfuzz.TestCase.from_onnx(path)
    except nnfuzz.ModelError as error:
        sys.exit(f"{path}: {error}")
    with nnfuzz.Experiment(compilers or ["onnxruntime", "tvm"]) as run:
        result = run(case)
    print(result)  # one line per compiler and level
    for failure in result.failures:
        print(failure, "-- accused:", result.blame(failure).accused or "nobody")
        print("  ->", failure.finding.save("out"))
    sys.exit(not result.ok)
