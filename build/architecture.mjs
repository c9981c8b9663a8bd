const nodeNames = { amd64: 'x64', arm64: 'arm64' };
const triplets = { x64: 'x86_64-linux', arm64: 'aarch64-linux' };

/**
 * Node's name of an architecture, such as `x64`.
 *
 * @param {string | undefined} name Debian's, such as `amd64`; this host's if absent or empty
 * @throws Error for an unknown one
 */
export function nodeArchitecture(name) {
  if (name === undefined || name === '') return process.arch;
  const found = nodeNames[name];
  if (found === undefined) throw new Error(`--arch ${JSON.stringify(name)}: expected ${Object.keys(nodeNames).join(' or ')}`);
  return found;
}

/** Beginning of the names of compilers and folders for an architecture, such as `aarch64-linux`. @param {string} architecture Node's name */
export function tripletOf(architecture) {
  const found = triplets[architecture];
  if (found === undefined) throw new Error(`nothing is compiled for ${architecture}: ${Object.keys(triplets).join(' or ')}`);
  return found;
}
