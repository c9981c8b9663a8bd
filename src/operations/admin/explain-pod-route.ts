import type { PodFlows, PodRepair, PodService } from '../../api/object.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { haveAddress } from '../../base/net/packed-endpoints.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { tableOfKey } from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import { type EndpointSlice, serviceKeyOf } from '../../kubernetes/resources/endpoint-slice.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { listLinks } from '../../netlink/links.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { type Lease, podName } from '../../pods/ipam/lease.ts';
import { podOwner } from '../../pods/network/attachment-names.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import { unusedEndpoints } from '../../services/compile/intent.ts';
import { type ServiceAddress, type ServiceEndpoint, type ServiceIntent, shownAddresses } from '../../services/compile/service-intent.ts';
import type { BridgeSnapshot } from '../diagnose/entries/bridge-entries.ts';
import type { NodeReader } from '../diagnose/entries/node-reader.ts';
import { type ApiAnswer, json } from './answer.ts';
import type { RepairHistory } from './repair-history.ts';
import { type ExplainedAttachment, explainPod, type PodFacts } from './views/pod-explanation.ts';
import { type PodChecker, type PodSources, podView } from './views/pod-view.ts';
import type { ServiceSources } from './views/service-view.ts';

/** Copies of the API's objects that explain a pod. */
interface ExplainingSources {
  readonly pods: { readonly replica: { get(key: string): Pod | undefined } };
  readonly networkPolicies: { readonly replica: { entries(): Iterable<readonly [string, NetworkPolicy]> } };
  readonly endpointSlices: { readonly replica: { entries(): Iterable<readonly [string, EndpointSlice]> } };
  readonly services: { readonly replica: { get(key: string): Service | undefined } };
}

interface ExplainedNode {
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly network: PodChecker;
  readonly services: ServiceSources;
  readonly policy: Pick<PolicyController, 'pods'>;
  readonly peers: { modeCounts(): PodFacts['peers'] };
}

export interface PodExplanationPort extends UnservedTargetPort {
  readonly config: { readonly nodeName: string; readonly ovsBridge: string };
  readonly sources: ExplainingSources;
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
  readonly reader: Pick<NodeReader, 'parts' | 'countedSnapshot' | 'interfaceState'>;
  readonly nodeState: { readonly bridge: Pick<NodeState['bridge'], 'keysOf' | 'wanted' | 'conflictingOwners'> };
  readonly host: { readonly socket: NetlinkSocket };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => ExplainedNode;
}

/** Parts of the agent that may keep a pod from being served. */
interface UnservedTargetPort {
  readonly readiness: { state(): { readonly state: 'ready' } | { readonly state: 'starting' | 'impaired'; readonly reason: string } };
  readonly repair: { readonly secondsLeft: number };
  readonly repairs: Pick<RepairHistory, 'of'>;
  readonly warnings: ReadonlyMap<string, readonly string[]>;
}

/** `?name=NAMESPACE/NAME`, or a container's ID. @throws SeineError `INVALID_INPUT` for a pod that this node does not have */
export async function podExplanation(port: PodExplanationPort, query: URLSearchParams, signal: AbortSignal): Promise<ApiAnswer> {
  const { config, sources, repairs, readiness, repair, warnings } = port;
  const node = port.running();
  const name = query.get('name') ?? '';
  const leases = node.ipam.leases().filter((lease) => lease.state === 'allocated' && podName(lease) === name);
  const known = sources.pods.replica.get(name);
  if (leases.length === 0 && !known)
    throw new SeineError('INVALID_INPUT', `this node has no pod ${JSON.stringify(name)}; run this on its node`);
  const owners = leases.map((lease) => podOwner(lease, lease.pod));
  const ips = new Set(leases.flatMap(({ addresses }) => addresses.map(({ ip }) => ip.text)));
  const state = readiness.state();
  return json(
    explainPod({
      name,
      node: config.nodeName,
      bridge: config.ovsBridge,
      attachments: await attachmentsOf(port, node, leases, signal),
      known,
      services: await servicesOf(port, node.services, ips),
      repairs: owners.flatMap((owner) =>
        repairs
          .of(owner)
          .map(({ at, what, owners: whose }): PodRepair => ({ at: at.toISOString(), what, entries: whose.get(owner) ?? null })),
      ),
      policies: [...sources.networkPolicies.replica.entries()].filter(([, { namespace }]) => name.startsWith(`${namespace}/`)).length,
      peers: node.peers.modeCounts(),
      standing: node.policy.pods().get(name),
      pausedForSeconds: repair.secondsLeft,
      notReady: state.state === 'ready' ? undefined : state.reason,
      warnings: [...warnings.values()].flat(),
    }),
  );
}

async function attachmentsOf(
  { reader, host, nodeState }: PodExplanationPort,
  { network }: Pick<ExplainedNode, 'network'>,
  leases: readonly Lease[],
  signal: AbortSignal,
): Promise<readonly ExplainedAttachment[]> {
  if (leases.length === 0) return [];
  const snapshot = await reader.countedSnapshot(signal);
  const common: PodSources = {
    parts: reader.parts,
    snapshot: { bridge: snapshot.bridge.held, host: snapshot.host },
    links: new Map(listLinks(host.socket, { kind: 'veth' }).map((link) => [link.name, link])),
    stateOf: (name) => reader.interfaceState(name),
    check: async (lease) => (lease.attached ? network.check(lease, lease.attached, signal) : []),
  };
  return await Promise.all(
    leases.map(async (lease): Promise<ExplainedAttachment> => {
      const owner = podOwner(lease, lease.pod);
      return {
        view: await podView(lease, common),
        gateways: lease.addresses.map(({ gateway }) => gateway.text),
        ...flowsOf(nodeState.bridge, owner, snapshot.bridge),
        rivals: nodeState.bridge.conflictingOwners(owner),
      };
    }),
  );
}

/** Returns an owner's flows by table, in the order of tables, and the age of the oldest. */
function flowsOf(
  desired: PodExplanationPort['nodeState']['bridge'],
  owner: string,
  { held, counted }: BridgeSnapshot,
): Pick<ExplainedAttachment, 'flows' | 'ageSeconds'> {
  const tables = new Map<number, { wanted: number; held: number }>();
  let oldestNs = -1n;
  for (const key of desired.keysOf(owner)) {
    const table = tableOfKey(key);
    if (table === undefined) continue;
    const sum = tables.get(table) ?? { wanted: 0, held: 0 };
    sum.wanted++;
    if (held.get(key) === desired.wanted(key)) sum.held++;
    tables.set(table, sum);
    const age = counted.get(key)?.durationNs ?? -1n;
    if (age > oldestNs) oldestNs = age;
  }
  const flows = [...tables]
    .toSorted(([a], [b]) => a - b)
    .map(([table, sum]): PodFlows => ({ table: tableName(table) ?? String(table), ...sum }));
  return { flows, ageSeconds: oldestNs < 0n ? null : Number(oldestNs / 1_000_000_000n) };
}

/**
 * Returns every port of a Service whose slices contain one of the addresses. A large cluster has many: in turns with the rest of the agent.
 */
async function servicesOf(
  { sources, turns }: Pick<PodExplanationPort, 'sources' | 'turns'>,
  services: ServiceSources,
  ips: ReadonlySet<string>,
): Promise<readonly PodService[]> {
  const naming = new Set<string>();
  for (const [, slice] of sources.endpointSlices.replica.entries()) {
    const key = serviceKeyOf(slice);
    if (key !== undefined && haveAddress(slice.endpoints, ips)) naming.add(key);
    if (turns.due) await turns.next();
  }
  return [...naming].toSorted().flatMap((key) => [...services.portsOf(key).values()].flatMap(({ intent }) => portOf(key, intent)));

  function portOf(service: string, intent: ServiceIntent): readonly PodService[] {
    const port = { service, port: `${intent.port}/${intent.transport.toUpperCase()}`, addresses: shownAddresses(intent).map(addressText) };
    const isOurs = ({ ip }: ServiceEndpoint): boolean => ips.has(ip.text);
    if (intent.cluster.some(isOurs) || intent.local.some(isOurs)) return [port];
    const object = sources.services.replica.get(service);
    const unused = object ? unusedEndpoints(object, services.slicesOf(service), intent, services.proxying).find(isOurs) : undefined;
    return unused ? [{ ...port, why: unused.why }] : [];
  }
}

function addressText({ kind, ip, port }: ServiceAddress): string {
  if (kind === 'nodePort') return `node port ${port}`;
  return ip.family === 'ipv6' ? `[${ip.text}]:${port}` : `${ip.text}:${port}`;
}
