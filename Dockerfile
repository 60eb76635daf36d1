# nnfuzz with the compilers that run on any processor:
#   docker build -t nnfuzz . && docker run --rm -v "$PWD:/work" nnfuzz fuzz --backend tvm
FROM python:3.11-slim

COPY . /src
# Without the index of PyTorch for processors alone, CUDA would come along: some gigabytes.
ARG TORCH_INDEX=""
RUN python -m pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        "/src[onnxruntime,tvm,openvino]" \
    && rm -rf /src

RUN useradd --create-home fuzzer && install -d -o fuzzer /work
USER fuzzer
WORKDIR /work
ENTRYPOINT ["python", "-m", "nnfuzz"]
CMD ["--help"]
