import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll, type DemoManifest, podManifest, podsReady } from '../../lab/demo/workload.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { askStatus } from '../../lab/up.ts';
import { type Family, type Ip, ipFromValue, parseIp } from '../../src/base/net/ip.ts';
import type { ConvergeLab } from './converge-lab.ts';
import { slowness } from './test-datapath.ts';

const signal = () => AbortSignal.timeout(120_000 * slowness);

export function networkPolicy(namespace: string, name: string, spec: object): DemoManifest {
  const object = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec };
  return { collection: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`, object };
}

export const denyAll = { podSelector: {}, policyTypes: ['Ingress', 'Egress'] };

export function namespaceManifest(name: string): DemoManifest {
  return { collection: '/api/v1/namespaces', object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } } };
}

/**
 * Starts pods of a namespace on the first node.
 *
 * @param meanwhile events of the node and the API server from the request for the pods on
 * @returns them, ready
 */
export async function addPods(
  lab: ConvergeLab,
  namespace: string,
  names: readonly string[],
  meanwhile: () => Promise<void> = async () => {},
): Promise<readonly PodStatusLine[]> {
  const ofNamespace = async () => (await askStatus(lab.plan.dir)).pods.filter((pod) => pod.namespace === namespace);
  const before = await ofNamespace();
  const node = lab.node(1).name;
  const wanted = names.map((name) => podManifest({ namespace, name, node, labels: { app: name }, port: 80 }));
  await createAll(lab.api, wanted, signal());
  await Promise.all([podsReady(lab.api, before.length + names.length, signal(), namespace), meanwhile()]);
  return (await ofNamespace()).filter(({ name }) => names.includes(name));
}

export async function removePods(lab: ConvergeLab, namespace: string, names: readonly string[]): Promise<void> {
  for (const name of names) await lab.api.send({ method: 'DELETE', path: `/api/v1/namespaces/${namespace}/pods/${name}` }, signal());
}

/** Addresses of the node's next pods: they are allocated in order. */
export function nextAddresses(lastGiven: readonly string[], family: Family, count: number): readonly string[] {
  const used = lastGiven.map(parseIp).filter((ip) => ip.family === family);
  const last = used.reduce<Ip | undefined>((most, ip) => (most === undefined || ip.value > most.value ? ip : most), undefined);
  if (last === undefined) throw new Error(`no ${family} address was given yet`);
  const next = Array.from({ length: count }, (_, at) => ipFromValue(family, last.value + BigInt(at) + 1n).text);
  // The last of a network is the broadcast address, for which a socket needs an option.
  return next.filter((text) => !text.endsWith('.255'));
}

/** Datagrams received by a namespace, for sockets and for ports without a listener, by the kernel's own counters. */
export async function datagramsReceived(netns: string): Promise<number> {
  const text = await runIn(netns, 'cat', ['/proc/net/snmp', '/proc/net/snmp6'], {}, signal());
  const [, received = '', silentReplies = ''] = /^Udp: (\d+) (\d+) /m.exec(text) ?? [];
  const ipv6 = [...text.matchAll(/^Udp6(?:InDatagrams|NoPorts)\s+(\d+)$/gm)].map(([, count]) => Number(count));
  return [Number(received), Number(silentReplies), ...ipv6].reduce((sum, count) => sum + count, 0);
}
