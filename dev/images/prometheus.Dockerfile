# The local cluster's Prometheus: the program built from source, with the public image's entry point, user and folders.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY prometheus /bin/prometheus
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
WORKDIR /prometheus
EXPOSE 9090
ENTRYPOINT ["/bin/prometheus"]
