import type { Family } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { reg } from '../pipeline/fields.ts';
import { type Flow, meter, priority, type Transport } from '../pipeline/flow.ts';
import { nodeMeters } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

export const unservedPortsOwner: Owner = ownerOf('node', 'unserved-ports');

/** Rate (packets per second) and burst of packets sent to the agent for refusal. */
const shown = { rate: 500, burst: 1_000 } as const;
const transports: readonly Transport[] = ['tcp', 'udp', 'sctp'];

/**
 * Compiles flows for new connections of pods and of the node to an address in a Service range that no Service port matched. The agent
 * refuses those to cluster addresses of Services (`ClusterAddresses`) and drops the rest, like kube-proxy: a Service may be new.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Pure.
 */
export function compileUnservedPorts(environment: NodeEnvironment): Wanted {
  if (environment.serviceCidrs.length === 0) return nothing;
  return {
    ...nothing,
    meters: [{ id: nodeMeters.unservedPorts, unit: 'packets', ...shown }],
    flows: familiesOf(environment).flatMap((family) => toAgent(family, environment)),
  };
}

function toAgent(family: Family, { serviceCidrs }: NodeEnvironment): Flow[] {
  const ofFamily = serviceCidrs.filter((cidr) => cidr.family === family);
  return ofFamily.flatMap((ipDst) =>
    transports.flatMap((protocol) =>
      (['pod', 'gateway'] as const).map(
        (source): Flow => ({
          table: 'route',
          priority: priority.aboveLow,
          match: { payload: family, protocol, ipDst, ctState: { new: '+', trk: '+' }, regs: [reg.source(source)] },
          steps: [meter(nodeMeters.unservedPorts), { do: 'toAgent', reason: 'unservedPort' }],
        }),
      ),
    ),
  );
}
