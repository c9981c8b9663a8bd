import type { HealthCheck } from '../api/health/health-check.ts';
import type { Log } from '../base/log/log.ts';
import type { CniServer } from '../pods/cni-server/server.ts';
import type { Ipam } from '../pods/ipam/ipam.ts';
import type { NodePods } from '../pods/network/node-pods.ts';
import { leaseCheckEveryMs, OrphanedLeases } from '../pods/network/orphaned-leases.ts';
import { hasSandbox } from '../pods/network/sandbox.ts';
import type { KubeSources } from './kube-sources.ts';
import type { NodeStack } from './node-state.ts';

interface LeaseCheckParts {
  readonly sources: Pick<KubeSources, 'pods'>;
  readonly stack: Pick<NodeStack, 'links'>;
  readonly pods: NodePods;
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly log: Log;
}

/** @param server called only once it serves, which is before the first check */
export function openOrphanedLeases({ sources, stack, pods, ipam, log }: LeaseCheckParts, server: () => CniServer): OrphanedLeases {
  return new OrphanedLeases({
    leases: () => ipam.leases(),
    pods,
    isSynced: () => sources.pods.status.state === 'in step',
    hasSandbox: (lease) => hasSandbox(stack.links.socket, lease),
    abandon: (lease, signal) => server().abandon(lease, signal),
    log,
  });
}

/** Finds leases whose pod no longer exists; while the copy of Pods is not synced, nothing is suspected, and status reports the source. */
export function leaseCheck(orphanedLeases: OrphanedLeases): HealthCheck {
  return {
    name: 'leases',
    everyMs: leaseCheckEveryMs,
    run: async (signal) => {
      await orphanedLeases.look(signal);
      const problems = orphanedLeases.kept.map(({ pod, why }) => {
        const message = `pod ${pod} does not exist in the API server and keeps its addresses: ${why}`;
        return { kind: 'pod.gone', about: pod, message } as const;
      });
      return { problems };
    },
  };
}
