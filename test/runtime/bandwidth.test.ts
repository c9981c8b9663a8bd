import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningPod, RuntimeLab } from './runtime-lab.ts';

/*
 * Limits from a pod's annotations, in both directions, through containerd: OVS has a meter for each. The burst cannot be configured there:
 * containerd 1.6 passes the maximum number, which the agent replaces by the amount that the rate allows in a second.
 */

const signal = AbortSignal.timeout(600_000);
/** Bits a second. */
const limit = 30e6;
const annotations = { 'kubernetes.io/ingress-bandwidth': '30M', 'kubernetes.io/egress-bandwidth': '30M' };
const sink = ['nc', '-ll', '-p', '9000', '-e', 'sh', '-c', 'cat > /dev/null'];
const sendSeconds = 150;
const windowMs = 2_000;

let runtimes: RuntimeLab;
let limited: RunningPod;
let free: RunningPod;
let alsoFree: RunningPod;

beforeAll(async () => {
  runtimes = await RuntimeLab.start(2, signal);
  await runtimes.startContainerd('usual chain', signal);
  limited = await runtimes.startPod(1, { name: 'limited', annotations }, sink, signal);
  free = await runtimes.startPod(2, { name: 'free' }, sink, signal);
  alsoFree = await runtimes.startPod(1, { name: 'also-free' }, sink, signal);
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(120_000));
});

/** Sends at the maximum rate, over TCP, during a check. */
async function whileSending<T>(from: RunningPod, to: RunningPod, family: number, look: () => Promise<T>): Promise<T> {
  const zeros = 'while [ ! -e /tmp/enough ]; do dd if=/dev/zero bs=65536 count=256 2>/dev/null; done';
  await runtimes.exec(from, ['sh', '-c', 'rm -f /tmp/enough'], signal);
  const sending = runtimes.execWithin(sendSeconds, from, ['sh', '-c', `(${zeros}) | nc ${to.ips[family]} 9000`], signal);
  // Checked below, unless something else fails first.
  sending.catch(() => undefined);
  try {
    return await look();
  } finally {
    await runtimes.exec(from, ['sh', '-c', '> /tmp/enough'], signal);
    await sending;
  }
}

async function received(pod: RunningPod): Promise<{ bytes: number; atMs: number }> {
  const bytes = Number(await runtimes.exec(pod, ['cat', '/sys/class/net/eth0/statistics/rx_bytes'], signal));
  return { bytes, atMs: performance.now() };
}

/** Bits a second that arrive at a pod now. */
async function arriving(pod: RunningPod): Promise<number> {
  const first = await received(pod);
  await sleep(windowMs);
  const last = await received(pod);
  return ((last.bytes - first.bytes) * 8_000) / (last.atMs - first.atMs);
}

describe.each([
  ['IPv4', 0],
  ['IPv6', 1],
] as const)('over %s', (_, family) => {
  it('pods without a limit get and send more than the limit', async () => {
    expect(await whileSending(alsoFree, free, family, () => arriving(free))).toBeGreaterThan(limit * 1.5);
  });

  it('what a limited pod sends is limited', async () => {
    const rates = async () => await arriving(free);
    await whileSending(limited, free, family, async () => {
      await expect.poll(rates, { timeout: 20_000 }).toBeLessThan(limit * 1.25);
      expect(await rates()).toBeGreaterThan(limit * 0.2);
    });
  });

  it('what a limited pod gets is limited', async () => {
    const rates = async () => await arriving(limited);
    await whileSending(free, limited, family, async () => {
      await expect.poll(rates, { timeout: 120_000 }).toBeLessThan(limit * 1.25);
      expect(await rates()).toBeGreaterThan(limit * 0.5);
    });
  });
});
