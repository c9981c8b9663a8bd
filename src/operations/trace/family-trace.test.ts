import { describe, expect, it } from 'vitest';
import { exampleObjects } from '../../../test/support/example-bundle.ts';
import type { TracedConnection } from '../../api/trace.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { ServedObject, SliceObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { usualSettings } from '../../simulate/cluster/node-compiler.ts';
import { SimulatedCluster } from '../../simulate/cluster/simulated-cluster.ts';
import { familyTrace } from './family-trace.ts';
import { endsOf } from './trace-ends.ts';
import type { TraceNode } from './trace-paths.ts';
import type { TraceQuestion } from './trace-question.ts';

/** Cluster with a Service of this number of endpoints outside. */
function clusterOf(endpoints: number): SimulatedCluster {
  const service: ServedObject = {
    metadata: { namespace: 'shop', name: 'db' },
    spec: { clusterIPs: ['10.96.0.20'], ports: [{ protocol: 'TCP', port: 80 }] },
  };
  const slice: SliceObject = {
    metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    ports: [{ protocol: 'TCP', port: 8_080 }],
    endpoints: Array.from({ length: endpoints }, (_, at) => ({
      addresses: [`203.0.${100 + Math.floor(at / 250)}.${(at % 250) + 1}`],
      conditions: { ready: true },
    })),
  };
  return new SimulatedCluster({ ...exampleObjects(), services: [service], slices: [slice] }, usualSettings([]));
}

/** Traces a later packet of a connection of the first pod to the Service. */
async function later(endpoints: number, known: TracedConnection) {
  return await traced(endpoints, { isEstablished: true }, known);
}

/** Traces a packet of the first pod to the Service. */
async function traced(endpoints: number, asked: Partial<TraceQuestion>, known?: TracedConnection) {
  const { environment, pods, flows } = clusterOf(endpoints).node('n1');
  const [pod] = pods;
  if (!pod) throw new Error('a pod is needed');
  const node: TraceNode = {
    bridge: flows,
    desired: flows,
    names: {
      port: String,
      peerAt: () => undefined,
      podAt: () => undefined,
      owner: () => undefined,
      tunnelType: 'Geneve',
    },
    gateway: environment.gateway.ofPort,
    tunnel: environment.tunnel.ofPort,
    onward: () => undefined,
    flowText: () => '',
  };
  const question: TraceQuestion = {
    from: { name: pod.name, kind: 'pod', addresses: pod.addresses, pod },
    to: { name: 'service:shop/db', addresses: [parseIp('10.96.0.20')] },
    ...{ protocol: 'tcp', port: 80, sourcePort: 40_000, hasSourcePort: false, isEstablished: false, families: ['ipv4'] },
    ...asked,
  };
  const [ends] = endsOf(question, 'ipv4');
  if (!ends) throw new Error('the question has no ends');
  return await familyTrace(node, question, ends, { environment, leases: [], translated: () => undefined, ...(known && { known }) });
}

describe('a later packet of a connection to a Service', () => {
  it('has the path to the endpoint of the connection alone', async () => {
    const { paths, known, moreEndpoints } = await later(70, { from: 'tracker', endpoint: '203.0.100.3:8080' });
    expect([paths.map(({ endpoints }) => endpoints), known?.note, moreEndpoints]).toEqual([[['203.0.100.3:8080']], undefined, 0]);
  });

  it('whose endpoint is gone has the paths of new connections, with the reason', async () => {
    const { paths, known } = await later(3, { from: 'tracker', endpoint: '203.0.100.99:8080' });
    expect(paths.flatMap(({ endpoints }) => endpoints)).toHaveLength(3);
    expect(known?.note).toBe('new connections do not get its endpoint 203.0.100.99:8080: the path is that of a new one');
  });

  it('is not said to have lost its endpoint where not all endpoints were traced', async () => {
    const { known, moreEndpoints } = await later(70, { from: 'tracker', endpoint: '203.0.100.70:8080' });
    expect(moreEndpoints).toBeGreaterThan(0);
    expect(known?.note).toBe('its endpoint 203.0.100.70:8080 is not among those that were traced: the path is that of a new one');
  });
});

describe('the first packet of a connection to a Service whose endpoints are in several groups', () => {
  it('may get every endpoint if its source port was not asked for', async () => {
    const { paths, moreEndpoints, choice } = await traced(400, {});
    expect(choice).toEqual({ endpoints: 400, ofOtherSourcePorts: 0 });
    expect(moreEndpoints).toBe(400 - 64);
    expect(paths.flatMap(({ endpoints }) => endpoints)).toHaveLength(64);
  });

  it('from a given port gets those of one group, and the others are counted', async () => {
    const ports = [40_000, 40_001, 40_002, 40_004, 40_006];
    const choices = await Promise.all(ports.map(async (sourcePort) => (await traced(400, { sourcePort, hasSourcePort: true })).choice));
    for (const choice of choices) expect((choice?.endpoints ?? 0) + (choice?.ofOtherSourcePorts ?? 0)).toBe(400);
    // The lowest bit of the port does not choose a group.
    expect(choices[1]).toEqual(choices[0]);
    const sizes = [0, 2, 3, 4].map((at) => choices[at]?.endpoints ?? 0);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(400);
  });

  it('has one group where there are few', async () => {
    expect((await traced(3, { hasSourcePort: true })).choice).toEqual({ endpoints: 3, ofOtherSourcePorts: 0 });
    expect((await traced(1, {})).choice).toBeUndefined();
  });
});
