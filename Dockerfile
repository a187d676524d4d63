# durometer from this checkout, CPU only:
#     docker build -t durometer .
#     docker run --rm -v "$PWD:/work" durometer run examples/table.toml
FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++=4:12.2.0-3 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY requirements/lock.txt /tmp/lock.txt
COPY --from=build /wheels /wheels
# The lock pins every version; torch's own index has its CPU build.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        --constraint /tmp/lock.txt "$(ls /wheels/*.whl)[xgboost-cpu,lightgbm,onnx]" \
    && rm -rf /wheels /tmp/lock.txt \
    && useradd --create-home durometer
USER durometer
WORKDIR /work
ENTRYPOINT ["durometer"]
CMD ["--help"]
