import { type Ip, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { compileInputs } from '../../src/operations/compiler-inputs/compile-inputs.ts';
import { readInputs, writeEnd, writeInput, writeStart } from '../../src/operations/compiler-inputs/inputs-document.ts';
import type { ForwardedObjects } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';
import { exampleScene } from '../model/scene.ts';

const { node: environment, peers, pods, proxying } = exampleScene;

/** Inputs of the example's node, or of its peer n2 with one pod, which has the address 10.10.4.9. */
export function exampleInputs(name: 'n1' | 'n2'): string {
  const { addresses, gateway } = proxying.node;
  const [peer] = peers;
  if (!peer) throw new Error('a peer is needed');
  const away = {
    ...environment,
    podCidrs: peer.podCidrs,
    transport: peer.transport,
    gateway: { ...environment.gateway, addresses: [parseIp('10.10.4.1'), parseIp('fd00:10:0:1::1')] },
  };
  const home = { name: 'n1', podCidrs: [parseCidr('10.10.0.0/22'), parseCidr('fd00:10::/64')], transport: environment.transport };
  const own = name === 'n1' ? pods : pods.slice(0, 1).map((pod) => ({ ...pod, addresses: [parseIp('10.10.4.9')] }));
  const lines = [
    ...(name === 'n1' ? peers : [home]).map((each) => writeInput('peer', each)),
    ...own.map((intent, at) => writeInput('pod', { owner: ownerOf('pod', 'shop', `${name}-${at}`, 'eth0@abc'), intent })),
    ...own.map(({ ofPort, addresses: all }, at) =>
      writeInput('subject', { owner: ownerOf('subject', 'shop', `${name}-${at}`, 'eth0@abc'), intent: { ofPort, addresses: all } }),
    ),
  ];
  const start = writeStart({ node: name, revision: 1 }, { environment: name === 'n1' ? environment : away, proxy: { addresses, gateway } });
  return [start, ...lines, writeEnd(1, lines.length)].join('\n');
}

/** Entries of the node's bridge. @param isHeld subjects whose entries are installed */
export function exampleHeld(name: 'n1' | 'n2', isHeld: (owner: string) => boolean = () => true): string {
  const { inputs } = readInputs(exampleInputs(name));
  const without = { ...inputs, subjects: inputs.subjects.filter(({ owner }) => isHeld(owner)) };
  const hex = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('hex');
  return [...compileInputs(without).entries].map(([key, value]) => JSON.stringify({ key: hex(key), value: hex(value) })).join('\n');
}

/** Objects of the cluster of both nodes: its pods, and no policy. */
export function exampleObjects(): ForwardedObjects {
  const pod = (nodeName: string, at: number, addresses: readonly Pick<Ip, 'text'>[]) => ({
    metadata: { namespace: 'shop', name: `${nodeName}-${at}`, labels: { app: nodeName } },
    spec: { nodeName, containers: [], initContainers: [] },
    status: { phase: 'Running', podIPs: addresses.map(({ text }) => ({ ip: text })) },
  });
  const node = (name: string, podCIDRs: readonly string[], addresses: readonly Pick<Ip, 'text'>[]) => ({
    metadata: { name },
    spec: { podCIDRs },
    status: { addresses: addresses.map(({ text }) => ({ type: 'InternalIP', address: text })) },
  });
  const texts = (cidrs: readonly { readonly text: string }[] = []): readonly string[] => cidrs.map(({ text }) => text);
  return {
    namespaces: [{ metadata: { name: 'shop', labels: { 'kubernetes.io/metadata.name': 'shop' } } }],
    nodes: [
      node('n1', ['10.10.0.0/22', 'fd00:10::/64'], environment.transport),
      node('n2', texts(peers[0]?.podCidrs), peers[0]?.transport ?? []),
    ],
    pods: [...pods.map(({ addresses }, at) => pod('n1', at, addresses)), pod('n2', 0, [{ text: '10.10.4.9' }])],
    networkPolicies: [],
    clusterNetworkPolicies: [],
    services: [],
    slices: [],
  };
}
