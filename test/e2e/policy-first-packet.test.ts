import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll } from '../../lab/demo/workload.ts';
import { DatagramStream } from '../../lab/probe/datagram-stream.ts';
import { timeoutOf } from '../support/batches.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import {
  addPods,
  datagramsReceived,
  denyAll,
  namespaceManifest,
  networkPolicy,
  nextAddresses,
  removePods,
} from '../support/guarded-lab.ts';

/** ADDs into a namespace without allowed traffic: `npm run test:policy` requires 10,000. */
const adds = Number(process.env['SEINE_TEST_POLICY_ADDS'] ?? 20);
/** More pods share the kills and outages of a long run. */
const atOnce = adds > 500 ? 20 : 5;
const saidEvery = 100;
const guesses = atOnce + 5;
/** Interval of datagrams to each address (ms), beginning before its pod is created. */
const everyMs = 4;
const families = ['ipv4', 'ipv6'] as const;

/** Policy applies to a pod before its first packet, whatever happens to agent and API server meanwhile. */
describe('the first packet', () => {
  let lab: ConvergeLab;
  let given: string[];

  beforeAll(async () => {
    lab = await ConvergeLab.start(1);
    const more = [namespaceManifest('guarded'), networkPolicy('guarded', 'deny-all', denyAll), namespaceManifest('open')];
    await lab.startPods();
    await createAll(lab.api, more, AbortSignal.timeout(30_000));
    given = lab.pods.filter(({ name }) => !name.startsWith('host')).flatMap(({ ips }) => ips);
  });
  afterAll(async () => lab?.remove());

  interface Round {
    readonly pods: readonly PodStatusLine[];
    /** Pods whose address had been guessed. */
    readonly received: number;
    readonly sentTo: number;
  }

  async function round(namespace: string, names: readonly string[], meanwhile: () => Promise<void> = async () => {}): Promise<Round> {
    const { netns } = lab.pod('web-1');
    const targets = families.flatMap((family) => nextAddresses(given, family, guesses));
    const streams = await Promise.all(targets.map((address) => DatagramStream.start({ from: netns, address, port: 80, everyMs })));
    try {
      const pods = await addPods(lab, namespace, names, meanwhile);
      const goals = streams.map((stream) => stream.sent + 50);
      await expect.poll(() => streams.every((stream, at) => stream.sent >= (goals[at] ?? 0)), { timeout: 60_000 }).toBe(true);
      const guessed = pods.filter(({ ips }) => ips.some((ip) => targets.includes(ip)));
      const counts = await Promise.all(guessed.map((pod) => datagramsReceived(pod.netns)));
      return { pods, received: counts.reduce((sum, count) => sum + count, 0), sentTo: guessed.length };
    } finally {
      for (const stream of streams) stream.close();
    }
  }

  async function rounds(namespace: string, count: number, meanwhile: (at: number) => () => Promise<void>) {
    const total = { received: 0, sentTo: 0, pods: 0 };
    for (let at = 0; total.pods < count; at++) {
      const names = Array.from({ length: atOnce }, (_, index) => `${namespace}-${at}-${index}`);
      const { pods, received, sentTo } = await round(namespace, names, meanwhile(at));
      given = pods.flatMap(({ ips }) => ips);
      total.received += received;
      total.sentTo += sentTo;
      total.pods += pods.length;
      if (total.pods % saidEvery === 0) console.log(`${total.pods} of ${count} ADDs, ${total.received} datagrams received`);
      await removePods(lab, namespace, names);
      await expect.poll(async () => (await lab.podNames(namespace)).length, { timeout: 30_000 }).toBe(0);
    }
    return total;
  }

  const levers = [
    async () => {},
    async () => {
      await lab.agent(1, 'kill');
      await lab.agent(1, 'start');
    },
    async () => {},
    async () => {
      await lab.apiServer('stop');
      await lab.apiServer('start');
    },
  ];

  it('is received by this test if nothing is denied', async () => {
    const { received, sentTo } = await rounds('open', atOnce, () => async () => {});
    expect(sentTo).toBeGreaterThan(0);
    expect(received).toBeGreaterThan(0);
  });

  it(`is never received if nothing is allowed, in ${adds} ADDs with kills of the agent and outages of the API`, {
    timeout: timeoutOf(adds),
  }, async () => {
    const { received, sentTo, pods } = await rounds('guarded', adds, (at) => levers[at % levers.length] ?? (async () => {}));
    console.log(`${pods} ADDs, ${sentTo} of them sent to before and after, ${received} datagrams received`);
    expect(sentTo).toBeGreaterThan(pods / 2);
    expect(received).toBe(0);
  });
});
