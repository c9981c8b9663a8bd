# The image of Open vSwitch. From the root of the checkout:
#
#     podman build -f build/images/ovs.Dockerfile -t seine.invalid/ovs:0.33.0 .

# or by `npm run build:images`, which builds what a commit holds: twice the same, for one base and the same packages. So nothing stays in
# a layer that tells when or where it was built: no logs, no caches, no day on which a user without a password was made, no name
# of a machine: systemd, which comes with Debian 13's Open vSwitch and is not run, would give all nodes the same.

# Any Debian 12 or newer: its Open vSwitch is what runs.
ARG BASE=docker.io/library/debian:trixie-slim

FROM ${BASE} AS files
COPY build/images/ovs-start build/images/sbom /out/
RUN bash -n /out/ovs-start && bash -n /out/sbom && chmod 0755 /out/*

FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openvswitch-switch \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /etc/openvswitch/conf.db /var/lib/openvswitch/* \
 && find /var/log -type f -delete \
 && sed -i -E 's/^([^:]*:[!*]+):[0-9]+:/\1::/' /etc/shadow /etc/shadow- \
 && truncate -s 0 /etc/machine-id
COPY --from=files /out/ovs-start /usr/local/bin/ovs-start
COPY --from=files /out/sbom /tmp/sbom
RUN mkdir -p /usr/share/seine && /tmp/sbom seine-ovs > /usr/share/seine/sbom.cdx.json && rm /tmp/sbom
LABEL org.opencontainers.image.title="seine-ovs" org.opencontainers.image.licenses="Apache-2.0"
CMD ["ovs-start"]
