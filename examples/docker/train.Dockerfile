# syntax=docker/dockerfile:1
# Training on GPUs: see README.md in this folder.
ARG PYTHON=3.12.11

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /source
COPY setup.py pyproject.toml README.md LICENSE ./
COPY tf_transformer tf_transformer
COPY training training
COPY export export
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim-bookworm
# CUDA and cuDNN are Python packages. The driver's library comes from the host, by the NVIDIA Container
# Toolkit, which reads these variables.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONUNBUFFERED=1
# Gigabytes that do not change with this project, in a layer of their own.
RUN pip install --no-cache-dir "tensorflow[and-cuda]>=2.21,<2.22"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[cuda]"
RUN useradd --create-home --uid 1000 trainer
USER 1000
WORKDIR /data
ENTRYPOINT ["tf-transformer"]
CMD ["--help"]
