import { admitting } from '../../../dataplane/compile/compile-commit.ts';
import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { nothing, type Wanted } from '../../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { ctMark, reg } from '../../../dataplane/pipeline/fields.ts';
import { type Flow, type Match, type Meter, priority, type Step } from '../../../dataplane/pipeline/flow.ts';
import { ofPorts, openedMeters } from '../../../dataplane/pipeline/well-known.ts';
import { type Sampling, sampledPorts } from './sampled-connections.ts';

/** Rate and burst of connections of one pod that are copied to the agent, and of the tunnel or the gateway, which carry those of many. */
const copied = { pod: { rate: 200, burst: 400 }, shared: { rate: 2_000, burst: 4_000 } } as const;

/** Bytes of a packet that the agent needs: the headers, with extension headers of IPv6. */
export const copiedHeaderBytes = 128;

const levels = {
  throughService: priority.aboveHigh,
  direct: priority.aboveNormal,
  withoutPorts: priority.overAboveNormal,
  uncopied: priority.above,
  notSampled: { throughService: priority.overHigh, direct: priority.overNormal },
} as const;

/** Priorities of the flows that copy openings, and of those that only count the ones that are not chosen. */
export const openedPriorities: ReadonlySet<number> = new Set([levels.throughService, levels.direct, levels.withoutPorts]);
export const notSampledPriorities: ReadonlySet<number> = new Set(Object.values(levels.notSampled));

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
 *
 * With sampling, copies are made of connections with chosen source ports, and of ICMP; two further flows count all others.
 */
export function compileOpened(ofPort: number, environment: NodeEnvironment, sampling: Sampling = 1): Wanted {
  const own: Meter = { id: openedMeters.offset + ofPort, unit: 'packets', ...copyRateOf(ofPort) };
  const copy: Step = { do: 'toAgent', reason: 'opened', meter: own.id, bytes: copiedHeaderBytes };
  const ofThisPort = (flow: Flow, level: number, match: Match): Flow => ({
    ...flow,
    priority: level,
    match: { ...flow.match, ...match, inPort: ofPort, regs: [...(flow.match.regs ?? []), reg.probe('no')] },
  });
  const withCopy = (...of: Parameters<typeof ofThisPort>): Flow => {
    const flow = ofThisPort(...of);
    return { ...flow, steps: [copy, ...flow.steps] };
  };
  const ctPortSrc = sampledPorts(sampling);
  return {
    ...nothing,
    meters: [own],
    flows: familiesOf(environment).flatMap((family) => {
      const { throughService, direct } = admitting(family);
      const unknown = { ctMarks: [...(direct.match.ctMarks ?? []), ctMark.source(0)] };
      const echoes = echoesOfNodes(ofPort, environment, direct);
      if (!ctPortSrc) return [withCopy(throughService, levels.throughService, {}), withCopy(direct, levels.direct, unknown), ...echoes];
      // Only a packet that is not invalid has the ports of its connection.
      const chosen: Match = { ctPortSrc, ctState: { ...throughService.match.ctState, inv: '-' } };
      return [
        withCopy(throughService, levels.throughService, chosen),
        withCopy(direct, levels.direct, { ...unknown, ctPortSrc }),
        withCopy(direct, levels.withoutPorts, { ...unknown, protocol: family === 'ipv4' ? 'icmp' : 'icmp6' }),
        ofThisPort(throughService, levels.notSampled.throughService, {}),
        ofThisPort(direct, levels.notSampled.direct, unknown),
        ...echoes,
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
