# The gateway, from the wheel alone:
#
#     python tests/release/run.py
#     docker build -t streamnorm .
#
# Podman and buildah build it as well; `--format docker` keeps the health check, for which the
# format of OCI has no field.
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS install
COPY dist/*.whl /wheels/
# Wheels alone: where a library has none for this machine, the build fails, since no stage has a
# compiler.
RUN python -m venv /opt/streamnorm \
    && set -- /wheels/*.whl \
    && /opt/streamnorm/bin/pip install --no-cache-dir --only-binary :all: "$1[serve,bedrock,otel,redis]" \
    && /opt/streamnorm/bin/pip uninstall --yes pip

FROM ${PYTHON}
COPY --from=install /opt/streamnorm /opt/streamnorm
ENV PATH=/opt/streamnorm/bin:$PATH
# A number: Kubernetes refuses a name where `runAsNonRoot` is set.
USER 65532:65532
WORKDIR /
EXPOSE 8080
# New requests are refused, running answers get `drain_grace_s`: give `docker stop` --time 40.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "from http.client import HTTPConnection; c = HTTPConnection('127.0.0.1', 8080, timeout=2); c.request('GET', '/healthz'); exit(c.getresponse().status != 200)"]
CMD ["streamnorm", "serve", "--config", "/etc/gateway/gateway.toml", "--host", "0.0.0.0", "--port", "8080", "--log-json"]
