import type { FoundProblem } from '../../../api/problem.ts';
import type { Owner } from '../../../dataplane/pipeline/cookie.ts';
import { affinityClientsMax } from '../../../dataplane/targets/bridge/encoding/learn-actions.ts';
import { type AffinityReader, readFullAffinities } from './affinity-clients.ts';

const CHECK_EVERY_MS = 60_000;
/** Maximum number of ports that are named. */
const NAMED_MAX = 10;

interface AffinityPorts {
  /** Served ports, by owner. */
  served(): Iterable<readonly [Owner, unknown]>;
}

/** Checks whether Service ports remember the maximum number of clients. */
export function affinityCheck(openflow: AffinityReader, services: AffinityPorts) {
  const owners = () => [...services.served()].map(([owner]) => owner);
  return {
    name: 'affinities',
    everyMs: CHECK_EVERY_MS,
    run: async (signal: AbortSignal) => ({
      problems: (await readFullAffinities(openflow, owners, signal)).slice(0, NAMED_MAX).map(problemOf),
    }),
  };
}

function problemOf(owner: Owner): FoundProblem {
  const port = owner.slice('service/'.length);
  return {
    kind: 'service.affinity',
    about: port,
    message: `${port} remembers ${affinityClientsMax} clients, the maximum of a port: further clients are balanced without session affinity`,
    remedy: 'shorten sessionAffinityConfig.clientIP.timeoutSeconds of the Service: unused clients are forgotten earlier',
  };
}
