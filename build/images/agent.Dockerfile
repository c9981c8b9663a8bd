# The image of agent, plugin and seinectl. From the root of the checkout:
#
#     podman build -f build/images/agent.Dockerfile -t seine.invalid/agent:0.33.0 .
#
# or by `npm run build:images`, which builds what a commit holds: twice the same, for one base and the same packages. So nothing stays in
# a layer that tells when or where it was built: no logs, no caches.
#
# For another architecture add --platform linux/arm64, and for podman --build-arg BUILDPLATFORM=linux/amd64: the first stage runs on the architecture of the host and compiles the plugin for that of the image. The
# second runs programs of the image, and needs an emulator.

# Has Node and npm; builds.
ARG BUILD_BASE=docker.io/library/node:24-bookworm-slim
# What runs. Debian 12: the libnftables of 13 writes maps at which that of 12 ends by a fault of memory, and with it the agent of an earlier release and the `nft`
# of such a node (docs/feature-matrix.md).
ARG BASE=docker.io/library/debian:bookworm-slim

FROM --platform=${BUILDPLATFORM} ${BUILD_BASE} AS build
ARG TARGETARCH
COPY build/images/compilers build/images/target-packages /usr/local/bin/
RUN compilers "${TARGETARCH}"
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY src/ovsdb/package.json src/ovsdb/
COPY src/openflow/package.json src/openflow/
COPY lab/package.json lab/
RUN npm ci --ignore-scripts --include=optional && target-packages "${TARGETARCH}" /target
COPY tsconfig.json LICENSE ./
COPY build build
COPY src src
COPY lab lab
RUN node build/bundle.mjs && node build/build-shim.mjs --arch "${TARGETARCH}" && node build/images/collect.mjs /out --arch "${TARGETARCH}" --packages /target \
 && dpkg-query -W -f 'pkg:deb/debian/${Package}@${Version}?arch=${Architecture}\n' > /out/usr/share/seine/built-with

# By name: after a stage for the host, podman 4.3 looks for a base of the host's architecture.
FROM --platform=${TARGETPLATFORM} ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libnftables1 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache \
 && find /var/log -type f -delete
COPY --from=build /out/ /
# Whether all its parts are there shows when they are loaded.
RUN export NODE_COMPILE_CACHE= && seinectl --version && install-cni --help && seine-agent --help \
 && CNI_COMMAND=VERSION /opt/seine/cni/seine < /dev/null
COPY build/images/sbom /opt/seine/sbom
RUN mkdir -p /usr/share/seine && /opt/seine/sbom seine-agent /opt/seine/npm-components.json > /usr/share/seine/sbom.cdx.json && rm /opt/seine/sbom
LABEL org.opencontainers.image.title="seine-agent" org.opencontainers.image.licenses="Apache-2.0"
CMD ["seine-agent"]
