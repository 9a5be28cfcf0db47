# syntax=docker/dockerfile:1
# Serving by TF Serving, on the CPU or, with TAG=2.21.0-gpu, on a GPU: see README.md in this folder.
ARG TAG=2.21.0

# For an export that is mounted as /models/translator.
FROM tensorflow/serving:${TAG} AS mounted
RUN useradd --system --uid 10001 server
USER 10001
EXPOSE 8500 8501
# Further flags of the server are arguments of `docker run`.
ENTRYPOINT ["tensorflow_model_server", \
    "--port=8500", "--rest_api_port=8501", \
    "--model_config_file=/models/translator/models.config", \
    "--enable_batching", \
    "--batching_parameters_file=/models/translator/batching_parameters.txt", \
    "--grpc_max_threads=64", \
    "--tensorflow_session_config_file=/models/translator/session_config.txt"]

# With the export, which is the folder of the build.
FROM mounted AS copied
COPY . /models/translator
