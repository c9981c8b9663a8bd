import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, ServiceLab, silent } from '../support/service-lab.ts';

/** NetworkPolicy with real packets. */
let lab: ServiceLab;

const policies = '/apis/networking.k8s.io/v1/namespaces/demo/networkpolicies';
const patience = () => AbortSignal.timeout(20_000);

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000);
afterAll(async () => {
  await lab?.remove();
});

async function policy(name: string, spec: object): Promise<void> {
  const body = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec };
  await lab.lab.api.send({ method: 'POST', path: policies, body }, patience());
}

async function withdraw(name: string): Promise<void> {
  await lab.lab.api.send({ method: 'DELETE', path: `${policies}/${name}` }, patience());
}

const client = (n: number, to: string) => ({ from: `client-${n}`, address: lab.ip(to, 'ipv4'), port: 80 });

describe('a NetworkPolicy', () => {
  it('denies all that it selects, lets in what it names by labels, and heals when it goes', async () => {
    const aims = [client(1, 'web-1'), client(1, 'web-2')];
    for (const aim of aims) await lab.sees(aim, { failures: [] });
    await policy('default-deny', { podSelector: {}, policyTypes: ['Ingress'] });
    try {
      for (const aim of aims) await lab.sees({ ...aim, ...silent }, { pods: [], failures: ['TIMEOUT'] });
      await policy('clients', {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }],
      });
      for (const aim of aims) await lab.sees(aim, { failures: [] });
      await withdraw('clients');
      for (const aim of aims) await lab.sees({ ...aim, ...silent }, { pods: [] });
      await eventually(async () => expect((await lab.look({ ...client(1, 'web-1'), from: 'node-1' })).failures).toEqual([]));
    } finally {
      await withdraw('default-deny');
    }
    for (const aim of aims) await lab.sees(aim, { failures: [] });
  });
});
