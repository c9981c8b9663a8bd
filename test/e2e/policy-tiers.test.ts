import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterPoliciesPath, clusterPolicyCrd, crdPath } from '../../lab/kube/cluster-policies.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { PolicyLab } from '../support/policy-lab.ts';
import { type Aim, eventually, families, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

/** ClusterNetworkPolicy with real packets, in a cluster that serves the resource only after its agents have started. */
let lab: ServiceLab;
let policies: PolicyLab;

const patience = () => AbortSignal.timeout(20_000 * slowness);

beforeAll(async () => {
  lab = await ServiceLab.start();
  policies = new PolicyLab(lab);
  await lab.lab.api.send({ method: 'POST', path: crdPath, body: clusterPolicyCrd }, patience());
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

/** Flows of a tier that another program deletes or adds are listed by `diff`, and repaired. */
async function tiersAreRepaired(): Promise<void> {
  const ofctl = (...args: readonly string[]) => lab.lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
  const table = `table=${tables.ingressAdmin.id}`;
  const rows = async () => (await ofctl('--no-stats', 'dump-flows', 'br-int', table)).split('\n').toSorted();
  const before = await rows();
  await eventually(async () => expect((await policies.seinectl('diff')).code).toBe(0));
  await policies.seinectl('pause', '--for', '5m');
  try {
    await ofctl('del-flows', 'br-int', table);
    await ofctl('add-flow', 'br-int', `cookie=0xbad,${table},priority=60000,ip,actions=drop`);
    const { code, text } = await policies.seinectl('diff');
    expect(code).toBe(1);
    expect(text).toMatch(/^ *\+.*table=ingressAdmin/m);
    expect(text).toMatch(/^ *-.*table=ingressAdmin, ?priority=60000/m);
  } finally {
    await policies.seinectl('resume');
  }
  await eventually(async () => expect(await rows()).toEqual(before));
}

/** An archive of this node has the policies of all tiers. */
async function tiersAreCollected(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'seine-collected-'));
  try {
    const archive = join(folder, 'node.tar.gz');
    expect(await policies.seinectl('collect', '-o', archive)).toMatchObject({ code: 0 });
    const { text } = await policies.seinectl(
      'policy',
      'reach',
      '--bundle',
      archive,
      '--from',
      'demo/client-1',
      '--to',
      'demo/web-1',
      '-o',
      'csv',
    );
    expect(text).toMatch(/deny.*admin spec\.ingress\[0\]/);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('a ClusterNetworkPolicy', () => {
  const clusterPolicy = async (name: string, spec: object) => {
    const body = { apiVersion: 'policy.networking.k8s.io/v1beta1', kind: 'ClusterNetworkPolicy', metadata: { name }, spec };
    await lab.lab.api.send({ method: 'POST', path: clusterPoliciesPath, body }, patience());
  };
  const removed = async (name: string) => {
    await lab.lab.api.send({ method: 'DELETE', path: `${clusterPoliciesPath}/${name}` }, patience()).catch(() => undefined);
  };

  /** Pods that answer, of several attempts: one that is late on a busy host is not denied. */
  const answered = async (aim: Aim) => (await lab.look({ ...aim, tries: 3, timeoutMs: 1_500 })).pods;

  // The agents look for the resource every 60 to 120 s as long as the cluster does not serve it.
  it('denies in the Admin tier what NetworkPolicies allow, and in the Baseline tier what they leave open', {
    timeout: 300_000 * slowness,
  }, async () => {
    const of = families.map((family) => ({ ...policies.client(1, 'web-1'), address: lab.ip('web-1', family) }));
    const everywhere = { namespaces: {} };
    const subject = { pods: { namespaceSelector: {}, podSelector: {} } };
    try {
      await clusterPolicy('baseline', { tier: 'Baseline', priority: 1, subject, ingress: [{ action: 'Deny', from: [everywhere] }] });
      for (const aim of of) await eventually(async () => expect(await answered(aim)).toEqual([]), 150_000 * slowness);
      await eventually(async () => expect(await policies.verified()).toMatchObject({ code: 0, view: { differences: [], problems: [] } }));
      await policies.create('open', { podSelector: {}, ingress: [{}] });
      for (const aim of of) await eventually(async () => expect((await lab.look(aim)).failures).toEqual([]));
      await clusterPolicy('admin', { tier: 'Admin', priority: 1, subject, ingress: [{ action: 'Deny', from: [everywhere] }] });
      for (const aim of of) await eventually(async () => expect(await answered(aim)).toEqual([]));
      expect(await policies.verified()).toMatchObject({ code: 0, view: { differences: [], problems: [] } });
      await tiersAreRepaired();
      await tiersAreCollected();
    } finally {
      for (const name of ['admin', 'baseline']) await removed(name);
      await policies.withdraw('open');
    }
    for (const aim of of) await eventually(async () => expect((await lab.look(aim)).failures).toEqual([]));
  });
});
