import { afterAll, beforeAll, expect, it } from 'vitest';
import { setLive } from '../../lab/demo/live-settings.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type Probe, upload } from '../../lab/probe/probe.ts';
import type { FlowView } from '../../src/api/flow-log.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { readFlowLine } from '../../src/seinectl/flows/read-flows.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { eventually } from '../support/service-lab.ts';

/** Ends of connections from the kernel's tracker, with the real pipeline. */
let lab: ConvergeLab;

const uploaded = 100_000;

beforeAll(async () => {
  lab = await ConvergeLab.start(1);
  await lab.startPods();
});
afterAll(async () => {
  await lab?.remove();
});

async function flows(query: string): Promise<readonly FlowView[]> {
  const { body } = await new AgentClient(nodePaths(lab.plan.dir, lab.node(1).name).apiSocket).get(`/v1/flow-log?${query}`);
  return body.split('\n').flatMap((text) => {
    const line = text === '' ? undefined : readFlowLine(text);
    return line && 'flow' in line ? [line.flow] : [];
  });
}

async function parameter(): Promise<string> {
  return (await lab.exec(1, 'cat', '/proc/sys/net/netfilter/nf_conntrack_acct')).trim();
}

it('records opened connections, and their ends with bytes and times', { timeout: 600_000 }, async () => {
  const before = await parameter();
  await setLive(lab.api, { 'flowLog.enabled': 'true' }, AbortSignal.timeout(60_000));
  await eventually(async () => expect(await parameter()).toBe('1'));
  const [client, web] = [lab.pod('client-1'), lab.pod('web-1')];
  const { spec } = (await lab.api.send({ method: 'GET', path: '/api/v1/namespaces/demo/services/web' }, AbortSignal.timeout(60_000))) as {
    readonly spec: { readonly clusterIPs: readonly string[] };
  };
  const probe = (address = ''): Probe => ({ from: client.netns, protocol: 'tcp', address, port: 80, timeoutMs: 60_000 });
  await eventually(async () => {
    expect(await upload(probe(web.ips[0]), uploaded)).toMatchObject({ is: 'OK' });
    expect(await upload(probe(spec.clusterIPs[0]), uploaded)).toMatchObject({ is: 'OK' });
    const opened = await flows('event=opened&from-pod=demo/client-1&last=500');
    expect(opened.map(({ service }) => service?.name).toSorted()).toEqual(expect.arrayContaining(['web', undefined]));
  });
  // Conntrack keeps a connection for two minutes after its end; as after that time, it is removed.
  await lab.exec(1, 'conntrack', '-D', '-p', 'tcp', '-s', client.ips[0] ?? '');
  await eventually(async () => {
    const closed = (await flows('event=closed&from-pod=demo/client-1&last=500')).filter(({ bytes }) => Number(bytes?.out) > uploaded);
    expect(new Set(closed.map(({ service }) => service?.name))).toEqual(new Set(['web', undefined]));
    for (const { packets, bytes, startedAt, destination, egress } of closed) {
      expect(destination).toMatchObject({ kind: 'pod', namespace: 'demo' });
      expect(egress).toMatchObject({ verdict: 'allowed' });
      // The payload with its first line, and headers of 40 to 60 bytes a packet.
      const [count, out] = [Number(packets?.out), Number(bytes?.out)];
      expect(out).toBeGreaterThanOrEqual(uploaded + 5 + 40 * count);
      expect(out).toBeLessThanOrEqual(uploaded + 5 + 60 * count);
      expect(Date.parse(startedAt ?? '')).toBeGreaterThan(0);
    }
  });
  await setLive(lab.api, { 'flowLog.enabled': null }, AbortSignal.timeout(60_000));
  await eventually(async () => expect(await parameter()).toBe(before));
});
