import { expect, it } from 'vitest';
import { objectSet, provenNode, put } from '../../../test/model/policy-proof.ts';
import { exampleCluster, policyObject } from '../../../test/support/policy-cluster.ts';
import { parseIp } from '../../base/net/ip.ts';
import { ctMark } from '../../dataplane/pipeline/fields.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import type { TrackedConnection } from '../../netlink/conntrack.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import { deniedConnections, livingEnds } from './open-connections.ts';

/* `shop/db` (10.10.0.5) accepts connections from its own namespace on 5432 only, and opens connections to 5353 only. */
const rules = {
  podSelector: { matchLabels: { app: 'db' } },
  policyTypes: ['Ingress', 'Egress'],
  ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 5432 }] }],
  egress: [{ ports: [{ protocol: 'UDP', port: 5353 }] }],
};
const [db, api, far, stranger, node] = ['10.10.0.5', '10.10.0.6', '10.10.4.9', '203.0.113.9', '10.10.0.1'] as const;
const virtual = '10.96.0.10';
const [TCP, UDP] = [6, 17];

function matrix() {
  const engine = new PolicyEngine(provenNode);
  for (const each of objectSet({ ...exampleCluster, networkPolicies: [policyObject('shop/db', rules)] }).values()) put(engine, each);
  engine.update();
  return engine.matrix;
}

interface Parts extends Partial<TrackedConnection> {
  readonly by?: string;
}

function connection(from: string, to: string, port: number, { by = to, ...more }: Parts = {}): TrackedConnection {
  const [src, endpoint] = [parseIp(from), parseIp(to)];
  return {
    family: 'ipv4',
    ipProtocol: TCP,
    zone: zones.ipv4.main,
    id: 1,
    original: { src, dst: parseIp(by), srcPort: 40_000, dstPort: by === to ? port : 80 },
    reply: { src: endpoint, dst: src, srcPort: port, dstPort: 40_000 },
    ...more,
  };
}

const deniedAmong = (...of: Parameters<typeof deniedConnections>) => [...deniedConnections(...of)].flatMap((each) => each ?? []);

const { value: barred } = ctMark.unadmitted('yes');
const { value: external } = ctMark.source('external');

it.each<[what: string, TrackedConnection, found: readonly string[]]>([
  ['what a rule allows', connection(api, db, 5432), []],
  ['another port', connection(api, db, 22), [`ingress shop/db ${api} TCP 22`]],
  ['another namespace', connection(far, db, 5432), [`ingress shop/db ${far} TCP 5432`]],
  ['external clients', connection(stranger, db, 5432), [`ingress shop/db ${stranger} TCP 5432`]],
  ['external clients with the node’s address', connection(node, db, 5432, { mark: external }), [`ingress shop/db ${node} TCP 5432`]],
  ['the node', connection(node, db, 22), []],
  [
    'what it asks for by a Service, at the endpoint',
    connection(db, far, 53, { ipProtocol: UDP, by: virtual }),
    [`egress shop/db ${far} UDP 53`],
  ],
  ['what it may ask for', connection(db, far, 5353, { ipProtocol: UDP, by: virtual }), []],
  ['what was never let in', connection(api, db, 22, { mark: barred }), []],
  ['what both ends have ended', connection(api, db, 22, { tcpState: 7 }), []],
  ['what one end has ended', connection(api, db, 22, { tcpState: 4 }), [`ingress shop/db ${api} TCP 22`]],
  ['what is not the bridge’s', connection(api, db, 22, { zone: 0 }), []],
  ['what a pod has that nothing isolates', connection(db, api, 5353, { ipProtocol: UDP }), []],
])('%s', (_, tracked, found) => {
  const denied = deniedAmong([tracked], { matrix: matrix(), policed: new Set(['shop/db', 'shop/api']) });
  expect(
    denied.map(({ pod, attempt: { direction, peer, protocol, ports } }) =>
      [direction, pod, peer.text, protocol, ports?.destination].join(' '),
    ),
  ).toEqual(found);
});

it('omits pods without policies', () => {
  expect(deniedAmong([connection(api, db, 22)], { matrix: matrix(), policed: new Set() })).toEqual([]);
});

it('names the ends of a connection, and the Service that the client requested', () => {
  expect(livingEnds(connection(api, db, 5432))).toEqual({ protocol: 'TCP', source: api, destination: db, port: 5432 });
  expect(livingEnds(connection(api, db, 5432, { by: virtual }))).toEqual({
    ...{ protocol: 'TCP', source: api, destination: db, port: 5432 },
    service: { address: virtual, port: 80 },
  });
  expect(livingEnds(connection(api, db, 5432, { mark: barred }))).toBeUndefined();
  expect(livingEnds(connection(api, db, 5432, { zone: 0 }))).toBeUndefined();
});
