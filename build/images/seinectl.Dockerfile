# `seinectl` as one file, the only file of the image: `npm run build:images -- --only seinectl` takes it out. The first stage is that of the
# agent's image, so both have the same Node, the same koffi and the same bundle.

ARG BUILD_BASE=docker.io/library/node:24-bookworm-slim

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
RUN node build/bundle.mjs && node build/seinectl/build.mjs --arch "${TARGETARCH}" --packages /target --out /out/seinectl

FROM scratch
COPY --from=build /out/seinectl /seinectl
CMD ["/seinectl"]
