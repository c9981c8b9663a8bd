import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ofFamily } from '../../lab/demo/scene.ts';
import { clusterIps, createAll } from '../../lab/demo/workload.ts';
import { ask } from '../../lab/probe/probe.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { slowness } from '../support/test-datapath.ts';

const patienceMs = 20_000 * slowness;
const signal = () => AbortSignal.timeout(patienceMs);

/** Lab as installed by default: the range of Services is not configured, so no address is reserved for them. */
describe('a Service of a cluster whose agents know no range of Services', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1, undefined, { withoutAgentKeys: ['serviceCIDR', 'serviceCIDRv6'] });
    await lab.startPods();
  });
  afterAll(async () => lab?.remove());

  /** A Node whose host reports these addresses. */
  async function addNode(name: string, podCIDR: string, addresses: readonly string[]): Promise<void> {
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } };
    await createAll(lab.api, [{ collection: '/api/v1/nodes', object }], signal());
    const body = { status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) } };
    const path = `/api/v1/nodes/${name}/status`;
    await lab.api.send({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body }, signal());
  }

  const objected = async (kind: string) => (await lab.metrics(1)).get(`rejected_objects{kind="${kind}"}`) ?? 0;

  it.each([
    ['that says it has the Service’s addresses', (service: readonly string[]) => ['10.123.0.0/24', service]],
    ['whose pods would have the Service’s network', () => ['10.96.0.0/16', ['198.18.9.9']]],
  ] as const)('is served while there is a Node %s', async (_, claimsOf) => {
    const service = await clusterIps(lab.api, 'web', signal());
    const [podCIDR, addresses] = claimsOf(service) as [string, readonly string[]];
    const isAnswered = async () =>
      await Promise.all(
        (['ipv4', 'ipv6'] as const).map(async (family) => {
          const target = { protocol: 'tcp', address: ofFamily(service, family), port: 80, timeoutMs: 1_000 * slowness } as const;
          return (await ask({ from: lab.pod('client-1').netns, ...target })).is;
        }),
      );
    await expect.poll(isAnswered, { timeout: patienceMs }).toEqual(['OK', 'OK']);
    await addNode('claims', podCIDR, addresses);
    // The effect of a later Node shows that the agent has processed both.
    await addNode('later', '0.0.0.0/0', ['198.18.9.8']);
    try {
      await expect.poll(() => objected('Node'), { timeout: patienceMs }).toBe(1);
      for (let round = 0; round < 5; round++) {
        expect(await isAnswered()).toEqual(['OK', 'OK']);
        expect(await objected('Service')).toBe(0);
      }
    } finally {
      for (const name of ['claims', 'later']) await lab.api.send({ method: 'DELETE', path: `/api/v1/nodes/${name}` }, signal());
      await expect.poll(() => objected('Node'), { timeout: patienceMs }).toBe(0);
    }
  });
});
