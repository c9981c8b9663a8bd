import type { Cidr, Family } from '../../base/net/ip.ts';
import { parseCidr } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { type DropName, dropOf } from '../pipeline/drops.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import { type Flow, type Match, priority, resubmit, type Step, type ToAgentStep } from '../pipeline/flow.ts';
import { type PipelineTableName, tableNames, tables } from '../pipeline/tables.ts';
import { nodeMeters, probeTunnelKey, serviceNextHop, tunnelCarriers } from '../pipeline/well-known.ts';
import { notSources } from './compile-service-path.ts';
import { familiesOf, type NodeEnvironment, ownCidrs } from './environment.ts';

/** Owner of the flows for trace probes, and of their meter. */
export const probesOwner: Owner = ownerOf('probe');

/** Probes per second and burst that reach the agent, whatever other nodes send. */
const shown = { rate: 50, burst: 100 } as const;

/** Bytes of a probe that the agent reads: its headers. */
const SHOWN_BYTES = 128;

/** End of a probe that is not dropped: it would leave to a pod or to the node, it left to another node, or it would be remembered. */
type ProbeDetail = 'output' | 'tunnel' | 'affinity';

/** Destinations that table `route` drops whatever the sender is. */
const refusedDestinations: Readonly<Record<Family, readonly Cidr[]>> = {
  ipv4: [parseCidr('224.0.0.0/4'), parseCidr('255.255.255.255/32')],
  ipv6: [parseCidr('ff00::/8')],
};

/**
 * Compiles the flows for probes of `seinectl trace`: copies of the flows that drop or output packets, with a higher priority, which match
 * the probe's bit and send it to the agent instead. A probe is never delivered. Other packets do not match: a register is not part of a
 * packet, so these flows change no megaflow, except that packets from the tunnel are compared with the probes' keys as well.
 *
 * They are always installed: OVS would check its megaflows again for flows that are installed for one probe, and remove the fault that is
 * looked for. Flows that send packets to the agent for another reason need no copy: `PacketInbox` recognizes a probe by its bit.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Pure.
 */
export function compileProbes(environment: NodeEnvironment): Wanted {
  return {
    ...nothing,
    meters: [{ id: nodeMeters.probes, unit: 'packets', ...shown }],
    flows: [
      ...misses(),
      ...fromTunnel(environment),
      ...states(),
      ...forgedSources(environment),
      ...unfinishedServices(),
      ...denials(environment),
      ...routes(environment),
      ...outputs(),
      ...(environment.blindToSctp ? [flow('associationShares', priority.probe, {}, [])] : []),
    ],
  };
}

/** Returns the copy of a dropping flow of another owner. */
export function probesOfDrop({ table, priority: level, match }: Flow, name: DropName): Flow {
  return ends(table, level + 1, match, name);
}

function flow(table: PipelineTableName, level: number, { regs = [], ...match }: Match, steps: readonly Step[]): Flow {
  return { table, priority: level, match: { ...match, regs: [reg.probe('yes'), ...regs] }, steps };
}

function toAgent(detail: DropName | ProbeDetail): ToAgentStep {
  return { do: 'toAgent', reason: 'probe', meter: nodeMeters.probes, bytes: SHOWN_BYTES, detail };
}

function ends(table: PipelineTableName, level: number, match: Match, detail: DropName | ProbeDetail): Flow {
  return flow(table, level, match, [toAgent(detail)]);
}

/** Copies of the misses that drop. */
function misses(): Flow[] {
  return tableNames
    .filter((table) => tables[table].miss === 'drop')
    .flatMap((table) => {
      const name = dropOf({ table, fields: [] });
      return name ? [ends(table, priority.aboveMiss, {}, name)] : [];
    });
}

/** Probes from another node: below its own flows are those for unknown nodes, and for senders that are not its pods. */
function fromTunnel({ tunnel: { ofPort: inPort } }: NodeEnvironment): Flow[] {
  return [
    {
      table: 'classify',
      priority: priority.probe,
      match: { inPort, tunKey: probeTunnelKey },
      steps: [{ do: 'probeFromTunnel' }, resubmit('classify')],
    },
    ends('classify', priority.aboveLow, { inPort }, 'tunnel.unknownPeer'),
    ends('spoofGuard', priority.low, { inPort }, 'tunnel.forged'),
  ];
}

/** A probe opens a connection: as a reply, or as part of a connection that exists, it would tell nothing. */
function states(): Flow[] {
  return [
    ends('state', priority.probe + 1, { ctState: { inv: '+', trk: '+' } }, 'connection.invalid'),
    ends('state', priority.probe, { ctState: { rpl: '+', trk: '+' } }, 'connection.notAdmitted'),
  ];
}

/** A probe of an external client, whose address is chosen by the user. */
function forgedSources(environment: NodeEnvironment): Flow[] {
  const regs = [reg.source('gateway')];
  return familiesOf(environment).flatMap((payload) =>
    notSources(environment)
      .filter(({ family }) => family === payload)
      .map((ipSrc) => ends('serviceEntry', priority.probe, { payload, ipSrc, regs }, 'service.virtualSource')),
  );
}

/** A choice of an endpoint is not learned for a probe. */
function unfinishedServices(): Flow[] {
  return [
    ends('balance', priority.probe, { regs: [reg.serviceState('learn')] }, 'affinity'),
    ...(['chosen', 'learn'] as const).map((state) =>
      ends('dnat', priority.low + 1, { regs: [reg.serviceState(state)] }, 'service.untranslated'),
    ),
  ];
}

/** In the modes that do not enforce, denied packets continue. */
function denials(environment: NodeEnvironment): Flow[] {
  const { policyMode = 'enforce', blindToSctp } = environment;
  const regs = [reg.verdict('deny')];
  return [
    ...(policyMode === 'enforce'
      ? [
          ends('egressVerdict', priority.probe, { regs }, 'policy.egress'),
          ends('ingressVerdict', priority.probe, { regs }, 'policy.ingress'),
        ]
      : []),
    ...(blindToSctp ? familiesOf(environment) : []).map((payload) =>
      ends('egressEntry', priority.probe, { payload, protocol: 'sctp', regs }, 'connection.notAdmitted'),
    ),
  ];
}

function routes(environment: NodeEnvironment): Flow[] {
  const { tunnel, serviceCidrs } = environment;
  const carrier = tunnelCarriers[tunnel.type];
  const route = (level: number, match: Match, name: DropName): Flow => ends('route', level, match, name);
  // No probe is a packet of GRE.
  const tunnelled: readonly Match[] = carrier.protocol === 'udp' ? [{ protocol: 'udp', portDst: tunnel.port }] : [];
  return familiesOf(environment).flatMap((payload) => [
    ...[...refusedDestinations[payload], serviceNextHop[payload]].map((ipDst) =>
      route(priority.probe, { payload, ipDst }, payload === 'ipv4' ? 'multicast' : 'multicast.ipv6'),
    ),
    // Below the flows that lead to pods. The node itself may send them.
    ...(['pod', 'tunnel'] as const).flatMap((source) =>
      tunnelled.map((match) => route(priority.higher + 1, { payload, ...match, regs: [reg.source(source)] }, 'tunnel.fromPod')),
    ),
    route(priority.normal + 1, { payload, regs: [reg.source('tunnel')] }, 'route.transit'),
    ...ownCidrs(environment)
      .filter(({ family }) => family === payload)
      .map((ipDst) => route(priority.low + 1, { payload, ipDst, regs: [reg.source('gateway')] }, 'route.none')),
    route(priority.low + 1, { payload, ctMarks: [ctMark.service('no')], regs: [reg.source('gateway')] }, 'route.none'),
    // Below the flows that send new connections to the agent, which refuses them.
    ...serviceCidrs.filter(({ family }) => family === payload).map((ipDst) => route(priority.low + 1, { payload, ipDst }, 'route.none')),
  ]);
}

/** A probe whose TTL ends here continues to `timeExceeded`. */
function outputs(): Flow[] {
  const alive = reg.expired('no');
  return [
    flow('output', priority.probe, { regs: [alive, reg.destination('tunnel')] }, [
      toAgent('tunnel'),
      { do: 'probeToTunnel' },
      { do: 'outputToRegister' },
    ]),
    ...(['pod', 'gateway'] as const).map((kind) => ends('output', priority.probe, { regs: [alive, reg.destination(kind)] }, 'output')),
    ends('neighbour', priority.probe, {}, 'output'),
    ends('announcements', priority.probe, {}, 'output'),
  ];
}
