# An image for an environment, whichever:
#
#   docker build --build-arg ENV=household -t agentgym-household .
#   docker run -p 8000:8000 -e AGENTGYM_TOKEN=… agentgym-household --sessions 256
#
# EXTRAS: what the environment needs besides, for example "serve-env,babyai". Without AGENTGYM_TOKEN it refuses to start,
# for a container listens to other machines. PIP and PIP_OPTIONS are for builds without a network.
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG EXTRAS=serve-env
ARG PIP="python3 -m pip"
ARG PIP_OPTIONS=""
COPY . /agentgym
RUN cd /agentgym && ${PIP} install --no-cache-dir ${PIP_OPTIONS} ".[${EXTRAS}]" && cd / && rm -rf /agentgym
ARG ENV
RUN cd / && agentgym play "${ENV}" --policy random --horizon 1 >/dev/null
ENV AGENTGYM_ENV=${ENV}
USER 65534:65534
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK CMD python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"
ENTRYPOINT ["sh", "-c", "exec agentgym serve env \"$AGENTGYM_ENV\" --host 0.0.0.0 \"$@\"", "serve"]
