import { cidrAddress, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { PolicyBytes } from '../../src/policy/verify/flow-reader/flow-reader.ts';
import { prove } from '../../src/policy/verify/proof/prove.ts';
import type { PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import { type BridgedPod, writtenBridge } from '../model/written-bridge.ts';
import { exampleNode } from '../support/example-node.ts';
import { largeNode } from '../support/large-policy-node.ts';
import { namespaceObject, nodeObject, podObject, policyObject } from '../support/policy-cluster.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const policyVerifyRowNames = ['policy.verify', 'policy.verify.groups', 'policy.verify.cells'] as const;

const nodeName = 'n0';
const rounds = 7;

/**
 * The proof of `seinectl policy verify` for the node of `policy.flows`: from the bytes of its flows and the objects of the API server, both
 * present, to the end.
 */
export async function policyVerifyRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const node = largeNode();
  const objects = objectsOf(node);
  const own = node.pods.filter((pod) => pod.nodeName === nodeName);
  const local = own.map(
    ({ namespace, name, podIps }, at): BridgedPod => ({ pod: `${namespace}/${name}`, ofPort: 32_784 + at, addresses: podIps }),
  );
  const podCidrs = [parseCidr('10.0.0.0/16')];
  const gateway = { ...exampleNode.gateway, addresses: podCidrs.map((cidr) => cidrAddress(cidr, 1n)) };
  const environment = { ...exampleNode, podCidrs, transport: [parseIp('192.168.0.1')], gateway };
  const flows = writtenBridge(node.engine, environment, local);
  print(`proof of ${flows.length} flows for ${local.length} pods of ${objects.pods.length}`);
  const ours: number[] = [];
  let found = { cells: 0, groups: 0 };
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    const { differencesTotal, cells, groups } = proof(objects, local, new PolicyBytes(flows));
    ours.push(performance.now() - startMs);
    if (differencesTotal > 0) throw new Error(`${differencesTotal} differences`);
    found = { cells, groups };
  }
  const rows = [
    { name: 'policy.verify', unit: 'ms', ours },
    { name: 'policy.verify.groups', unit: 'peers', ours: [found.groups] },
    { name: 'policy.verify.cells', unit: 'cells', ours: [found.cells] },
  ];
  return rows.filter(({ name }) => selected(name));
}

function proof(
  objects: PolicyObjects,
  pods: readonly BridgedPod[],
  bytes: PolicyBytes,
): ReturnType<ReturnType<typeof prove>['next']>['value'] & object {
  const steps = prove({ objects, nodeName, pods, bytes, mode: 'enforce' });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The large node's policies and pods as the API server has them. */
function objectsOf({ pods, policies }: ReturnType<typeof largeNode>): PolicyObjects {
  return {
    nodes: Array.from({ length: 100 }, (_, at) => nodeObject(`n${at}`, [`10.${at}.0.0/16`], [`192.168.0.${at + 1}`])),
    namespaces: policies.map(({ namespace }) => namespaceObject(namespace)),
    pods: pods.map(({ namespace, name, nodeName: node = '', podIps, labels }) =>
      podObject(`${namespace}/${name}`, podIps, { node, labels }),
    ),
    networkPolicies: policies.map(({ namespace, name }) => policyObject(`${namespace}/${name}`, ownNamespaceOnly)),
  };
}

/** Nothing but the own namespace, ingress controllers and DNS. */
const ownNamespaceOnly = {
  podSelector: {},
  policyTypes: ['Ingress', 'Egress'],
  ingress: [{ from: [{ podSelector: {} }] }, { from: [appOf('ns0', 'a0')], ports: [{ protocol: 'TCP', port: 8080 }] }],
  egress: [{ to: [{ podSelector: {} }] }, { to: [appOf('ns1', 'a1')], ports: [{ protocol: 'UDP', port: 53 }] }],
};

function appOf(namespace: string, app: string) {
  return {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    podSelector: { matchLabels: { app } },
  };
}
