/** Build type in a provenance statement: identifies this build and its parameters. */
const buildType = 'https://seine.invalid/build-images/v1';

/**
 * A provenance statement in the form of in-toto v1, type SLSA provenance v1. It is not signed; the builder may sign it.
 *
 * @param facts inputs and outputs of the build; digests are SHA-256 in hexadecimal, times as of `Date.toISOString`
 */
export function provenanceOf({
  name,
  id,
  layers,
  commit,
  lock,
  bases,
  packages,
  builtWith,
  parameters,
  builder,
  versions,
  startedOn,
  finishedOn,
}) {
  const debian = (purls, as) => purls.map((uri) => ({ uri, annotations: { as } }));
  return {
    _type: 'https://in-toto.io/Statement/v1',
    // The ID of an image in podman and containerd. It covers the digests of all layers, and does not change when a registry compresses
    // them.
    subject: [{ name, digest: { sha256: id } }],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType,
        externalParameters: parameters,
        resolvedDependencies: [
          { name: 'source', digest: { gitCommit: commit } },
          { name: 'package-lock.json', digest: { sha256: lock } },
          ...bases.map((base) => ({ uri: base.name, digest: { sha256: base.digest }, annotations: { as: base.as } })),
          ...debian(packages, 'in the image'),
          ...debian(builtWith, 'built with'),
        ],
      },
      runDetails: {
        builder: { id: builder, version: versions },
        metadata: { startedOn, finishedOn },
        byproducts: layers.map((digest, at) => ({ name: `layer ${at + 1}, uncompressed`, digest: { sha256: digest } })),
      },
    },
  };
}

/** The default of each `ARG NAME=VALUE` of a Dockerfile. @returns {Readonly<Record<string, string>>} */
export function argumentsOf(dockerfile) {
  return Object.fromEntries(Array.from(dockerfile.matchAll(/^ARG (\w+)=(\S+)$/gm), ([, name, value]) => [name, value]));
}
