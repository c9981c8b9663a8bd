import type { PodFlows, PodRepair, PodService } from '../../agent-api/object.ts';
import { tableOfKey } from '../../datapath/bridge-entry.ts';
import { SeineError } from '../../errors/seine-error.ts';
import { type EndpointSlice, serviceKeyOf } from '../../kube/endpoint-slice.ts';
import { listLinks } from '../../netlink/links.ts';
import { tableName } from '../../pipeline/tables.ts';
import { unusedEndpoints } from '../../proxy/intent.ts';
import type { Endpoint, ServiceAddress, ServiceIntent } from '../../proxy/service-intent.ts';
import type { Agent, RunningNode } from '../agent.ts';
import { podOwner } from '../attachment-names.ts';
import type { Lease } from '../ipam/lease.ts';
import { type ApiAnswer, json } from './answer.ts';
import { type BridgeSnapshot, readBridge } from './bridge-view.ts';
import { interfaceStates, reading, running } from './lists.ts';
import { partsOf } from './parts.ts';
import { type ExplainedAttachment, explainPod } from './pod-explanation.ts';
import { type PodSources, podName, podView } from './pod-view.ts';

/** `?name=NAMESPACE/NAME`, or a container's ID. @throws SeineError `INVALID_INPUT` for a pod that this node does not have */
export async function podExplanation(agent: Agent, query: URLSearchParams, signal: AbortSignal): Promise<ApiAnswer> {
  const { config, sources, repairs, readiness, repair, warnings } = agent;
  const node = running(agent);
  const name = query.get('name') ?? '';
  const leases = node.ipam.leases().filter((lease) => lease.state === 'allocated' && podName(lease) === name);
  const known = sources.pods.replica.get(name);
  if (leases.length === 0 && !known)
    throw new SeineError('INVALID_INPUT', `this node has no pod ${JSON.stringify(name)}; ask the node that has it`);
  const owners = leases.map((lease) => podOwner(lease, lease.pod));
  const ips = new Set(leases.flatMap(({ addresses }) => addresses.map(({ ip }) => ip.text)));
  const state = readiness.state();
  return json(
    explainPod({
      name,
      node: config.nodeName,
      bridge: config.ovsBridge,
      attachments: await attachmentsOf(agent, node, leases, signal),
      known,
      services: await servicesOf(agent, node, ips),
      repairs: owners.flatMap((owner) =>
        repairs
          .of(owner)
          .map(({ at, what, owners: whose }): PodRepair => ({ at: at.toISOString(), what, entries: whose.get(owner) ?? null })),
      ),
      policies: [...sources.networkPolicies.replica.entries()].filter(([, { namespace }]) => name.startsWith(`${namespace}/`)).length,
      pausedForSeconds: repair.secondsLeft,
      notReady: state.state === 'ready' ? undefined : state.reason,
      warnings: [...warnings.values()].flat(),
    }),
  );
}

async function attachmentsOf(
  agent: Agent,
  node: RunningNode,
  leases: readonly Lease[],
  signal: AbortSignal,
): Promise<readonly ExplainedAttachment[]> {
  if (leases.length === 0) return [];
  const { plane } = agent;
  const bridge = await readBridge({ ...reading(agent), counters: 'kept' }, signal);
  const common: PodSources = {
    parts: partsOf(plane.datapath),
    snapshot: { bridge: bridge.held, host: await plane.datapath.targets.host.observe(signal) },
    links: new Map(listLinks(plane.host.socket, { kind: 'veth' }).map((link) => [link.name, link])),
    stateOf: interfaceStates(agent),
    check: async (lease) => (lease.attached ? node.network.check(lease, lease.attached, signal) : []),
  };
  return await Promise.all(
    leases.map(async (lease): Promise<ExplainedAttachment> => {
      const owner = podOwner(lease, lease.pod);
      return {
        view: await podView(lease, common),
        gateways: lease.addresses.map(({ gateway }) => gateway.text),
        ...flowsOf(agent, owner, bridge),
        rivals: plane.datapath.bridge.rivalsOf(owner),
      };
    }),
  );
}

/** An owner's flows by table, in the order of tables, and the age of the oldest. */
function flowsOf({ plane }: Agent, owner: string, { held, counted }: BridgeSnapshot): Pick<ExplainedAttachment, 'flows' | 'ageSeconds'> {
  const desired = plane.datapath.bridge;
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

/** Every port of a Service whose slices name one of the addresses. A large cluster has many: in turns with the rest of the agent. */
async function servicesOf({ sources }: Agent, { services }: RunningNode, ips: ReadonlySet<string>): Promise<readonly PodService[]> {
  const naming = new Set<string>();
  for (const [, slice] of sources.endpointSlices.replica.entries()) {
    const key = serviceKeyOf(slice);
    if (key !== undefined && names(slice, ips)) naming.add(key);
    if (sources.turns.due) await sources.turns.next();
  }
  return [...naming].toSorted().flatMap((key) => [...services.portsOf(key).values()].flatMap(({ intent }) => portOf(key, intent)));

  function portOf(service: string, intent: ServiceIntent): readonly PodService[] {
    const port = { service, port: `${intent.port}/${intent.transport.toUpperCase()}`, addresses: intent.addresses.map(addressText) };
    const isOurs = ({ ip }: Endpoint): boolean => ips.has(ip.text);
    if (intent.cluster.some(isOurs) || intent.local.some(isOurs)) return [port];
    const object = sources.services.replica.get(service);
    const unused = object ? unusedEndpoints(object, services.slicesOf(service), intent, services.proxying).find(isOurs) : undefined;
    return unused ? [{ ...port, why: unused.why }] : [];
  }
}

function names({ endpoints }: EndpointSlice, ips: ReadonlySet<string>): boolean {
  return endpoints.some(({ addresses }) => addresses.some((address) => ips.has(address)));
}

function addressText({ kind, ip, port }: ServiceAddress): string {
  if (kind === 'nodePort') return `node port ${port}`;
  return ip.family === 'ipv6' ? `[${ip.text}]:${port}` : `${ip.text}:${port}`;
}
