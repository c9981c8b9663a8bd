/** Answer to a request for a new WireGuard key. */
export interface RotationAnswer {
  /** Public key until then. */
  readonly publicKey: string;
  /** Time of the change, RFC 3339 in UTC. */
  readonly changesAt: string;
}
