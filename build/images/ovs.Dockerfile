# The image of Open vSwitch. From the root of the checkout:
#
#     podman build -f build/images/ovs.Dockerfile -t seine.invalid/ovs:0.8.0 .

# Any Debian 12 or newer: its Open vSwitch is what runs.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS files
COPY build/images/ovs-start build/images/sbom /out/
RUN bash -n /out/ovs-start && bash -n /out/sbom && chmod 0755 /out/*

FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openvswitch-switch \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log /etc/openvswitch/conf.db /var/lib/openvswitch/*
COPY --from=files /out/ovs-start /usr/local/bin/ovs-start
COPY --from=files /out/sbom /tmp/sbom
RUN mkdir -p /usr/share/seine && /tmp/sbom seine-ovs > /usr/share/seine/sbom.cdx.json && rm /tmp/sbom
LABEL org.opencontainers.image.title="seine-ovs" org.opencontainers.image.licenses="Apache-2.0"
CMD ["ovs-start"]
