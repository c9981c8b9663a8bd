import type { HealthCheck } from '../../api/health/health-check.ts';
import type { FoundProblem } from '../../api/problem.ts';
import type { PeerModes } from '../../nodes/modes/peer-modes.ts';
import type { Peers } from '../../nodes/peers/peers.ts';

const CHECK_EVERY_MS = 4_000;
/** Maximum number of peers that are named of each kind. */
const NAMED_MAX = 10;

interface PeerModesParts {
  readonly peers: Pick<Peers, 'refusedModes'>;
  readonly modes: Pick<PeerModes, 'lost'>;
}

/** Reports peers that this node does not reach in the way that is configured. */
export function peerModesCheck({ peers, modes }: PeerModesParts): HealthCheck {
  return {
    name: 'peer modes',
    everyMs: CHECK_EVERY_MS,
    run: async () => ({
      problems: [
        ...modes.lost().slice(0, NAMED_MAX).map(lostEchoes),
        ...[...peers.refusedModes()].slice(0, NAMED_MAX).map(([name, reason]) => routeConflict(name, reason)),
      ],
    }),
  };
}

function lostEchoes({ peer, family }: ReturnType<PeerModes['lost']>[number]): FoundProblem {
  return {
    kind: 'peer.direct',
    about: `${family} ${peer}`,
    message: `echoes over ${family} to node ${peer} are lost without a tunnel, but its own address answers: the network drops packets with pods’ addresses`,
    remedy: 'allow them between nodes (docs/traffic-modes.md), or set trafficEncapMode: encap',
  };
}

function routeConflict(peer: string, reason: string): FoundProblem {
  return {
    kind: 'route.conflict',
    about: peer,
    message: `node ${peer} stays in its previous traffic mode: ${reason}`,
    remedy: 'ip route; remove the route, or exclude the pod networks in the program that writes it',
  };
}
