# nnfuzz with the compilers that run on any processor:
#   docker build -t nnfuzz . && docker run --rm -v "$PWD:/work" nnfuzz fuzz --backend tvm
FROM python:3.11-slim

COPY . /src
# The public package index has PyTorch for Linux with CUDA only, some gigabytes. uv knows where PyTorch
# has its other builds: "cpu" is for processors alone; for a GPU, --build-arg TORCH=auto or such as cu130.
ARG TORCH=cpu
RUN python -m pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --torch-backend "$TORCH" "/src[onnxruntime,tvm,openvino]" \
    && rm -rf /src

RUN useradd --create-home fuzzer && install -d -o fuzzer /work
USER fuzzer
WORKDIR /work
ENTRYPOINT ["python", "-P", "-m", "nnfuzz"]
CMD ["--help"]
