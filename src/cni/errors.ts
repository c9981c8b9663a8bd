/**
 * Error codes for the runtime. 0–99 are those of the specification (CNI SPEC 1.1.0, "Error"), Seine's start at 100. docs/cni.md lists them
 * for operators; a code is never reused with another meaning.
 */
export const cniCodes = {
  incompatibleVersion: 1,
  /** The message names the key and the value. */
  unsupportedField: 2,
  /** The container is unknown, and needs no cleanup. */
  unknownContainer: 3,
  /** The message names every invalid CNI_* variable. */
  invalidEnvironment: 4,
  ioFailure: 5,
  undecodable: 6,
  invalidConfig: 7,
  /** The call is valid, but the agent is unreachable or not ready. */
  tryAgainLater: 11,
  /** STATUS: ADD cannot be served now. */
  notAvailable: 50,
  /** STATUS: like 50, and existing pods may have lost their network as well. */
  notAvailableLimited: 51,
  /** Bug in Seine; see the agent's log. */
  internal: 100,
  /** No address: pool exhausted, the requested one is in use, or the journal cannot be written. */
  addressUnavailable: 101,
  /** The node refused: namespace, interface, bridge port or flows. All completed steps were undone. */
  wiringFailed: 102,
  /** CHECK: the message describes the difference. */
  checkFailed: 103,
  /** ADD of an existing attachment. The attachment is unchanged. */
  alreadyAttached: 104,
  /** The delegated IPAM plugin failed; its message is in the details. */
  ipamPluginFailed: 105,
  /** Plugin and agent are more than one release apart and have no protocol version in common. */
  agentProtocol: 106,
  /** The API server has no such pod: it is deleted, or another one has its name. */
  unknownPod: 107,
} as const;

export type CniCode = (typeof cniCodes)[keyof typeof cniCodes];

/** Failed call, in the form that the runtime prints. */
export class CniError extends Error {
  override readonly name = 'CniError';
  readonly code: CniCode;
  readonly details: string;

  constructor(code: CniCode, message: string, details = '') {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** Formats the JSON that a plugin prints on stdout when it fails; libcni reads nothing else. */
export function formatError(error: CniError, cniVersion: string): string {
  const details = error.details === '' ? {} : { details: error.details };
  return JSON.stringify({ cniVersion, code: error.code, msg: error.message, ...details });
}
