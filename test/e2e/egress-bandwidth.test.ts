import { rmSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import type { Entry } from '../../src/api/entry.ts';
import type { PodView } from '../../src/api/object.ts';
import { ingressMeters, podOfPorts } from '../../src/dataplane/pipeline/well-known.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

const rate = 2_000_000;
/** The kubelet of the lab passes practically no limit, so it is the amount that the rate allows in a second. */
const burst = rate;
const port = 9_000;
const payloadBytes = 1_000;
/** Ethernet, IPv4 and UDP headers. */
const frameBits = (payloadBytes + 14 + 20 + 8) * 8;
/** Multiple of the allowed rate. */
const offered = 3;
const packets = Math.round((offered * rate * 2.5) / frameBits);
const tickMs = 2;
/** Maximum after a pause of this process: more at once would overflow the sockets by which the userspace data path gets packets. */
const atOnceMax = 40;

interface Flood {
  readonly received: number;
  readonly tookSeconds: number;
}

describe('a pod with a limit in each direction', () => {
  let lab: ConvergeLab;
  let slow: PodStatusLine;
  let meter: string;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1, undefined, { datapath: 'netdev' });
    const annotations = { 'kubernetes.io/egress-bandwidth': '2M', 'kubernetes.io/ingress-bandwidth': '2M' };
    const metadata = { name: 'slow', labels: { app: 'slow' }, annotations };
    const spec = { nodeSelector: { 'kubernetes.io/hostname': lab.node(1).name }, containers: [{ name: 'responder', image: 'responder' }] };
    const object = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
    await lab.startPods([{ collection: '/api/v1/namespaces/demo/pods', object }]);
    slow = lab.pod('slow');
    meter = await meters();
  });
  afterAll(async () => await lab?.remove());

  const ofctl = async (...args: readonly string[]): Promise<string> => await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
  /** Meters of bandwidth as `ovs-ofctl` shows them, on one line. The node has others, which count packets. */
  const meters = async (): Promise<string> => {
    const dump = (await ofctl('dump-meters', 'br-int')).split('\n').slice(1).join(' ').trim();
    return dump
      .split(/(?=meter=\d)/)
      .filter((each) => each.includes(' kbps '))
      .join('')
      .trim();
  };
  const usesMeter = async (): Promise<boolean> => (await ofctl('dump-flows', 'br-int', 'table=0')).includes('actions=meter:');
  const untilLimited = async (): Promise<number> =>
    await until(
      async () => (await meters()) === meter && (await usesMeter()),
      10_000,
      () => 'the meter is not as it was',
    );

  async function asked<T>(path: string): Promise<readonly T[]> {
    const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
    const items = await new Promise<unknown>((resolve, reject) => {
      const call = request({ socketPath: apiSocket, path, agent: false }, (response) => void json(response).then(resolve, reject));
      call.once('error', reject).end();
    });
    return (items as { readonly items: readonly T[] }).items;
  }

  /** Sends this number of datagrams from one pod to another, at three times the allowed rate, and counts those that arrive. */
  async function flood(from: PodStatusLine, to: PodStatusLine): Promise<Flood> {
    const [address = ''] = to.ips;
    const receiver = await bindUdpIn(to.netns, address, port);
    const sender = await bindUdpIn(from.netns, '0.0.0.0', 0);
    receiver.setRecvBufferSize(1 << 20);
    sender.on('error', () => {}); // the receiver has closed before the last of them arrived
    let received = 0;
    receiver.on('message', () => received++);
    await new Promise<void>((resolve) => sender.connect(port, address, resolve));
    const startedMs = performance.now();
    let lastMs = startedMs;
    for (let sent = 0; sent < packets; ) {
      const due = Math.floor(((performance.now() - startedMs) * offered * rate) / 1_000 / frameBits) + 1;
      for (const until = Math.min(packets, due, sent + atOnceMax); sent < until; sent++) sender.send(Buffer.alloc(payloadBytes));
      lastMs = performance.now();
      await sleep(tickMs);
    }
    let before = -1;
    while (before !== received) {
      before = received;
      await sleep(100);
    }
    receiver.close();
    sender.close();
    return { received, tookSeconds: (lastMs - startedMs) / 1_000 };
  }

  async function expectLimited(from = slow, to = lab.pod('web-1')): Promise<void> {
    const { received, tookSeconds } = await flood(from, to);
    const allowed = (burst + rate * tookSeconds) / frameBits;
    expect(received / allowed).toBeGreaterThan(0.85);
    expect(received / allowed).toBeLessThan(1.15);
    expect(received).toBeLessThan(0.75 * packets);
  }

  it('sends within its bucket and rate; others are not limited', async () => {
    await expectLimited();
    expect((await flood(lab.pod('client-1'), lab.pod('web-1'))).received).toBeGreaterThan(0.98 * packets);
  });

  it('receives within its bucket and rate', async () => {
    await expectLimited(lab.pod('web-1'), slow);
  });

  it('is shown with its limits', async () => {
    const [pod] = await asked<PodView>('/v1/pods?name=demo%2Fslow');
    expect(pod).toMatchObject({ state: 'ok', egress: { rate, burst }, ingress: { rate, burst } });
    const shown = { state: 'ok', owners: pod?.owners };
    const numbers = [pod?.ofPort ?? 0, ingressMeters.first + (pod?.ofPort ?? 0) - podOfPorts.first];
    const ofPod = (await asked<Entry>('/v1/meters')).filter(({ name }) => numbers.map(String).includes(name));
    expect(ofPod).toMatchObject(numbers.map((number) => ({ ...shown, name: String(number) })));
    for (const number of numbers)
      expect(meter).toContain(`meter=${number} kbps burst bands= type=drop rate=${rate / 1_000} burst_size=${burst / 1_000}`);
  });

  it('keeps its meter when the agent restarts, and nothing is written', async () => {
    await lab.agent(1, 'kill');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    const metrics = await lab.metrics(1);
    for (const kind of ['flow', 'group', 'meter']) expect([kind, metrics.get(`ovs_flow_ops_count{kind="${kind}"}`)]).toEqual([kind, 0]);
    expect([await meters(), await usesMeter()]).toEqual([meter, true]);
  });

  it('keeps its limit when the agent has lost its journal', async () => {
    await lab.agent(1, 'kill');
    rmSync(join(nodePaths(lab.plan.dir, lab.node(1).name).stateDir, 'ipam.journal'));
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    expect([await meters(), await usesMeter()]).toEqual([meter, true]);
    expect((await lab.metrics(1)).get('ovs_flow_ops_count{kind="meter"}')).toBe(0);
  });

  it('gets its meter back when it is changed or deleted, and when OVS restarts', async () => {
    const [, number] = /meter=(\d+)/.exec(meter) ?? [];
    await ofctl('mod-meter', 'br-int', `meter=${number},kbps,burst,bands=type=drop,rate=9,burst_size=90`);
    await untilLimited();
    await ofctl('del-meters', 'br-int');
    await untilLimited();
    await lab.killOvs(1, 'ovs-vswitchd');
    await lab.startOvs(1);
    await untilLimited();
    await expectLimited();
  });

  it('removes its meters with it', async () => {
    await lab.api.send({ method: 'DELETE', path: '/api/v1/namespaces/demo/pods/slow' }, AbortSignal.timeout(10_000));
    await until(
      async () => (await meters()) === '',
      10_000,
      () => 'the meter is still there',
    );
  });
});
