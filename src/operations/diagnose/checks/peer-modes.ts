import type { Finding } from '../../../api/check.ts';
import type { PeerSource } from '../../../kubernetes/resources/peer-source.ts';
import { modeReasons } from '../../../nodes/modes/peer-mode.ts';
import type { ShownMode } from '../../../nodes/modes/peer-modes.ts';
import { type Check, fine, trouble } from './check.ts';

/** Maximum number of peers that are named. */
const NAMED_MAX = 5;

export interface PeerModesPort {
  readonly peers: Pick<PeerSource, 'peers'>;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly peers: { modesOf(name: string): readonly ShownMode[] } };
}

/** Peer with the modes in which this node sends to it. */
interface PeerWithModes {
  readonly name: string;
  readonly modes: readonly ShownMode[];
}

/** Checks how this node sends to each other node. Whether packets arrive is checked by echoes (`tunnel.reach`). */
export function peerModes({ peers, running }: PeerModesPort): Check {
  return {
    name: 'peers.modes',
    run: (_, reporter) => {
      const ways = running().peers;
      reporter.finding(assessModes([...peers.peers()].map(({ name }) => ({ name, modes: ways.modesOf(name) }))));
    },
  };
}

/** Reasons of a mode that is as configured, or on the way to it. */
const expected: ReadonlySet<string> = new Set(
  (
    [
      'encrypted',
      'establishing',
      'configured',
      'resizing',
      'notAnnounced',
      'announcing',
      'otherSubnet',
      'notVerified',
      'onLink',
      'listed',
      'routedByNetwork',
    ] as const
  ).map((reason) => modeReasons[reason]),
);

export function assessModes(peers: readonly PeerWithModes[]): Finding {
  const all = peers.flatMap(({ name, modes }) => modes.map((mode) => ({ name, ...mode })));
  if (all.length === 0) return fine('peers.modes', 'there is no other node');
  const wrong = all.filter(({ reason }) => !expected.has(reason));
  const isBlocked = wrong.some(({ mode }) => mode === 'blocked');
  if (wrong.length === 0) return fine('peers.modes', countsOf(all));
  const named = wrong.slice(0, NAMED_MAX).map(({ name, family, mode, reason }) => `${name} (${wordOf(family)}): ${mode}, ${reason}`);
  const more = wrong.length > named.length ? [`and ${wrong.length - named.length} more`] : [];
  return trouble('peers.modes', isBlocked ? 'problem' : 'warning', {
    what: [...named, ...more].join('; '),
    effect: isBlocked
      ? 'nothing is sent to peers that are blocked; others are reached in another mode than configured'
      : 'these peers are reached in another mode than configured, or not at all',
    remedy: 'seinectl get nodes -o wide; docs/traffic-modes.md, docs/encryption.md',
  });
}

/** Returns the number of peers by family and mode, such as `IPv4: 2 direct, 1 tunnel; IPv6: 3 tunnel`. */
function countsOf(all: readonly Pick<ShownMode, 'family' | 'mode'>[]): string {
  const byFamily = Object.entries(Object.groupBy(all, ({ family }) => family)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const words = byFamily.map(([family, ofFamily]) => {
    const counts = Object.entries(Object.groupBy(ofFamily ?? [], ({ mode }) => mode)).toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `${wordOf(family)}: ${counts.map(([mode, peers]) => `${peers?.length ?? 0} ${mode}`).join(', ')}`;
  });
  return words.join('; ');
}

function wordOf(family: string): string {
  return family === 'ipv6' ? 'IPv6' : 'IPv4';
}
