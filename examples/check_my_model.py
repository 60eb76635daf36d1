"""Do compilers compute my model right? python check_my_model.py MODEL.onnx [COMPILER ...]

`nnfuzz check MODEL.onnx` does the same and more; this is for programs of your own.
"""

import sys

import nnfuzz

if __name__ == "__main__":
    path, *compilers = sys.argv[1:]
    # Inputs are searched under which no value is NaN or infinite. To choose them yourself:
    # check_model(path, compilers, {"image": numpy.zeros((1, 3, 8, 8), "float32")})
    try:
        check = nnfuzz.check_model(path, compilers)  # none: all that are installed
    except nnfuzz.ModelError as error:
        sys.exit(f"{path}: {error}")
    print(check)
    for place in check.save("out").places:
        print(place.folder, "-- first wrong:", place.maker or "unknown")
    sys.exit(not check.ok)
