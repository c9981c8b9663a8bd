import type { HealthCheck } from '../../api/health/health-check.ts';
import type { FoundProblem } from '../../api/problem.ts';
import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import { Handshakes, type SilentPeer } from '../../nodes/wireguard/handshakes.ts';

const CHECK_EVERY_MS = 15_000;
/** Time for which dropped packets are reported after the last one (ms). */
const REPORTED_MS = 60_000;
/** Maximum number of peers that are named. */
const NAMED_MAX = 10;

interface WireGuardCheckParts {
  readonly read: (signal: AbortSignal) => Promise<WireGuardDevice | undefined>;
  /** Returns the name of the node that has a key. */
  readonly nodeOf: (key: WireGuardPublicKey) => string | undefined;
  /** Returns the packets that the table against cleartext has dropped, of both families. */
  readonly clearDrops: () => number;
  /** Current Unix time (ms). */
  readonly now: () => number;
}

/** Reports peers that do not answer handshakes, and packets that would have left or arrived without encryption. */
export function wireGuardCheck({ read, nodeOf, clearDrops, now }: WireGuardCheckParts): HealthCheck {
  const handshakes = new Handshakes();
  const drops = new RecentDrops();
  return {
    name: 'wireguard',
    everyMs: CHECK_EVERY_MS,
    run: async (signal) => {
      const silent = handshakes.check(await read(signal), now());
      const dropped = drops.note(clearDrops(), now());
      return {
        problems: [
          ...silent.slice(0, NAMED_MAX).map((peer) => noHandshake(peer, nodeOf(peer.key) ?? peer.key)),
          ...(dropped > 0 ? [cleartext(dropped)] : []),
        ],
      };
    },
  };
}

/** Counter of dropped packets, of which those of the last minute matter. */
class RecentDrops {
  #last: number | undefined;
  #dropped = 0;
  #at = 0;

  /** @returns packets dropped since the last pause of a minute */
  note(count: number, now: number): number {
    const more = this.#last === undefined ? 0 : Math.max(0, count - this.#last);
    this.#last = count;
    if (more > 0) this.#at = now;
    this.#dropped = now - this.#at > REPORTED_MS ? 0 : this.#dropped + more;
    return this.#dropped;
  }
}

function noHandshake({ ageMs }: SilentPeer, node: string): FoundProblem {
  const last = ageMs === undefined ? 'never' : `${Math.round(ageMs / 1_000)} s ago`;
  return {
    kind: 'peer.handshake',
    about: node,
    message: `node ${node} does not answer WireGuard handshakes; the last one succeeded ${last}`,
    remedy: 'allow UDP port wireGuard.port between nodes; compare keys with `kubectl get node -o yaml` and clocks (docs/encryption.md)',
  };
}

function cleartext(packets: number): FoundProblem {
  return {
    kind: 'wireguard.cleartext',
    about: 'seine-clear',
    message: `${packets} packets of pods that are not encrypted were dropped`,
    remedy: 'ip route get the address of a pod of another node; a route of another program may take its packets (docs/encryption.md)',
  };
}
