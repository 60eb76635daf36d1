# nnfuzz with the compilers that run on any processor:
#   docker build -t nnfuzz . && docker run --rm -v "$PWD:/work" nnfuzz fuzz --backend tvm
FROM python:3.11-slim

COPY . /src
# The public package index has PyTorch for Linux with CUDA only, some gigabytes. Wheels for processors
# alone (versions "+cpu") are in an index of PyTorch's own, whose address its installation page gives:
#   docker build --build-arg TORCH_INDEX=ADDRESS -t nnfuzz .
# pip takes them by itself from any index that has them, as it takes "2.13.0+cpu" before "2.13.0".
ARG TORCH_INDEX=""
RUN python -m pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        "/src[onnxruntime,tvm,openvino]" \
    && rm -rf /src

RUN useradd --create-home fuzzer && install -d -o fuzzer /work
USER fuzzer
WORKDIR /work
ENTRYPOINT ["python", "-m", "nnfuzz"]
CMD ["--help"]
