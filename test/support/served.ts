import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeApi } from '../../lab/kube/kube-api.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { LabPlan } from '../../lab/plan/plan.ts';
import type { ServiceView } from '../../src/api/object.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { slowness } from './test-datapath.ts';

const pollMs = 10 * slowness;

interface Service {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec: {
    readonly selector?: Readonly<Record<string, string>>;
    readonly clusterIPs?: readonly string[];
    readonly ipFamilies?: readonly ('IPv4' | 'IPv6')[];
    readonly ports?: readonly { readonly protocol: string; readonly port: number; readonly targetPort: number }[];
  };
}

interface Pod {
  readonly metadata: { readonly namespace: string; readonly labels?: Readonly<Record<string, string>> };
  readonly status: { readonly podIPs?: readonly { readonly ip: string }[] };
}

/**
 * Waits until every agent of a lab serves every Service with a cluster address, with all the pods that it selects, which are ready and have
 * no special settings: later changes of OVS are then caused by the test. A pod is ready before its endpoints have reached the agents.
 *
 * @throws unless that is so before the signal aborts
 */
export async function untilServed(plan: LabPlan, api: KubeApi, signal: AbortSignal): Promise<void> {
  const list = async <T>(collection: string): Promise<readonly T[]> =>
    ((await api.send({ method: 'GET', path: `/api/v1/${collection}` }, signal)) as { readonly items: readonly T[] }).items;
  const [services, pods] = await Promise.all([list<Service>('services'), list<Pod>('pods')]);
  const wanted = services
    .filter(({ spec: { clusterIPs = [], selector } }) => selector !== undefined && clusterIPs.length > 0 && clusterIPs[0] !== 'None')
    .map((service) => `${service.metadata.namespace}/${service.metadata.name} ${endpointsOf(service, pods)}`)
    .toSorted();
  for (const { name } of plan.nodes) {
    const agent = new AgentClient(nodePaths(plan.dir, name).apiSocket);
    for (let missing = wanted; ; await sleep(pollMs)) {
      const { items } = (await agent.json('/v1/services').catch(nothingYet)) as { readonly items: readonly ServiceView[] };
      const served = new Set(items.flatMap((view) => (isWhole(view) ? [`${view.name} ${view.endpoints}`] : [])));
      missing = wanted.filter((each) => !served.has(each));
      if (missing.length === 0) break;
      if (signal.aborted) throw new Error(`${name} does not serve with so many endpoints: ${missing.join(', ')}`);
    }
  }
}

/** An agent on a busy emulated host may not answer in time. */
function nothingYet(thrown: unknown): { readonly items: readonly ServiceView[] } {
  if (thrown instanceof SeineError && thrown.code === 'UNAVAILABLE') return { items: [] };
  throw thrown;
}

function isWhole({ state, flows }: ServiceView): boolean {
  return state === 'ok' && flows.held === flows.wanted;
}

/** Number of endpoints, each counted once, for any number of ports. */
function endpointsOf({ metadata, spec: { selector = {}, ipFamilies = [], ports = [] } }: Service, pods: readonly Pod[]): number {
  const selected = pods.filter(
    ({ metadata: { namespace, labels = {} } }) =>
      namespace === metadata.namespace && Object.entries(selector).every(([key, value]) => labels[key] === value),
  );
  const families = ipFamilies.map((family) => (family === 'IPv4' ? 'ipv4' : 'ipv6'));
  const addresses = selected.flatMap(({ status: { podIPs = [] } }) => podIPs.map(({ ip }) => ip));
  const reached = addresses.filter((ip) => families.includes(parseIp(ip).family));
  const targets = new Set(ports.map(({ protocol, port, targetPort = port }) => `${protocol} ${targetPort}`));
  return new Set(reached).size * targets.size;
}
