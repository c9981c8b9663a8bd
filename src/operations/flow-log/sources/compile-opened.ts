import { admitting } from '../../../dataplane/compile/compile-commit.ts';
import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { nothing, type Wanted } from '../../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { ctMark, reg } from '../../../dataplane/pipeline/fields.ts';
import { type Flow, type Match, type Meter, priority, type Step } from '../../../dataplane/pipeline/flow.ts';
import { ofPorts, openedMeters } from '../../../dataplane/pipeline/well-known.ts';

/** Rate and burst of connections of one pod that are copied to the agent, and of the tunnel or the gateway, which carry those of many. */
const copied = { pod: { rate: 200, burst: 400 }, shared: { rate: 2_000, burst: 4_000 } } as const;

/** Bytes of a packet that the agent needs: the headers, with extension headers of IPv6. */
export const copiedHeaderBytes = 128;

const levels = { throughService: priority.aboveHigh, direct: priority.aboveNormal, uncopied: priority.above } as const;

/** Priorities of the flows that copy openings. */
export const openedPriorities: ReadonlySet<number> = new Set([levels.throughService, levels.direct]);

/** Rate and burst of copies of packets that enter by a port. */
export function copyRateOf(ofPort: number): Pick<Meter, 'rate' | 'burst'> {
  return ofPort === ofPorts.tunnel || ofPort === ofPorts.gateway ? copied.shared : copied.pod;
}

/** Owner of the flows for one port. */
export function openedOwner(ofPort: number): Owner {
  return ownerOf('flowLog', String(ofPort));
}

/**
 * Compiles flows that copy to the agent the first packet of each connection that enters by a port: the flows that admit it again, for this
 * port, each with a copy first. They do not change what happens to the packet, and the meter limits only the copies. Pure.
 *
 * The first packet of a connection is that whose entry in conntrack has no origin yet. One to a Service has one, and is not admitted yet. A
 * probe of `seinectl trace` is not copied: no pod sent it.
 */
export function compileOpened(ofPort: number, environment: NodeEnvironment): Wanted {
  const own: Meter = { id: openedMeters.offset + ofPort, unit: 'packets', ...copyRateOf(ofPort) };
  const copy: Step = { do: 'toAgent', reason: 'opened', meter: own.id, bytes: copiedHeaderBytes };
  const withCopy = (flow: Flow, level: number, match: Match): Flow => ({
    ...flow,
    priority: level,
    match: { ...flow.match, ...match, inPort: ofPort, regs: [...(flow.match.regs ?? []), reg.probe('no')] },
    steps: [copy, ...flow.steps],
  });
  return {
    ...nothing,
    meters: [own],
    flows: familiesOf(environment).flatMap((family) => {
      const { throughService, direct } = admitting(family);
      const unknown = { ctMarks: [...(direct.match.ctMarks ?? []), ctMark.source(0)] };
      return [
        withCopy(throughService, levels.throughService, {}),
        withCopy(direct, levels.direct, unknown),
        ...echoesOfNodes(ofPort, environment, direct),
      ];
    }),
  };
}

/** Flows without a copy for ICMP that a node itself sends: agents send echoes to each other all the time. */
function echoesOfNodes(ofPort: number, { gateway }: NodeEnvironment, direct: Flow): Flow[] {
  const side = ofPort === ofPorts.gateway ? 'ipSrc' : ofPort === ofPorts.tunnel ? 'ipDst' : undefined;
  if (side === undefined) return [];
  return gateway.addresses
    .filter(({ family }) => family === direct.match.payload)
    .map((address) => ({
      ...direct,
      priority: levels.uncopied,
      match: { ...direct.match, inPort: ofPort, protocol: address.family === 'ipv4' ? 'icmp' : 'icmp6', [side]: address },
    }));
}
