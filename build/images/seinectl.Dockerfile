# `seinectl` as one file, the only file of the image: `npm run build:images -- --only seinectl` takes it out. The first stage is that of the
# agent's image, so both have the same Node, the same koffi and the same bundle.

ARG BUILD_BASE=docker.io/library/node:24-bookworm-slim

FROM ${BUILD_BASE} AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev musl-tools containernetworking-plugins \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY src/ovsdb/package.json src/ovsdb/
COPY src/openflow/package.json src/openflow/
COPY lab/package.json lab/
RUN npm ci --ignore-scripts --include=optional
COPY tsconfig.json LICENSE ./
COPY build build
COPY src src
COPY lab lab
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libnftables1 \
 && rm -rf /var/lib/apt/lists/*
RUN node build/bundle.mjs && node build/seinectl/build.mjs --out /out/seinectl

FROM scratch
COPY --from=build /out/seinectl /seinectl
CMD ["/seinectl"]
