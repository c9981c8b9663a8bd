import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type Family, type Ip, ipFromValue, parseIp } from '../../src/base/net/ip.ts';
import { runIn } from '../machine/netns.ts';
import { DatagramStream } from '../probe/datagram-stream.ts';
import { ask } from '../probe/probe.ts';
import { guardedNamespace, guardedPod } from './guarded.ts';
import { deniedLine } from './policy-log-check.ts';
import {
  type DemoCheck,
  demoPod,
  eventually,
  inParallel,
  ofFamily,
  outcomeText,
  type Scene,
  type Trial,
  tryAll,
  type Verdict,
} from './scene.ts';
import { podPort } from './workload.ts';

/** A denied packet is dropped: a denial is seen as no answer for this time (ms). */
const deniedMs = 700;
const followMs = 20_000;
const pollMs = 20;
/** Number of addresses after the last pod's that the next pod may get. */
const guesses = 12;
/**
 * Interval between two datagrams (ms). The kernel's data path is mostly tested in emulation, where a higher rate would starve the agent.
 */
const everyMs = { netdev: 12, system: 200 };
/** Number of further datagrams once the pod is ready. */
const moreDatagrams = { netdev: 100, system: 10 };

/** Traffic that NetworkPolicy allows and denies, for one family. */
export function policyChecks(scene: Scene, family: Family): DemoCheck[] {
  return [
    { name: `policy.allow.${family}`, run: () => eventually(() => tryAll(asked(scene, family, 'client'))) },
    { name: `policy.deny.${family}`, run: () => denied(scene, family) },
    { name: `policy.log.${family}`, run: () => deniedLine(scene, family) },
    { name: `policy.live-cut.${family}`, run: (signal) => livingConnection(scene, family, signal) },
    { name: `policy.first-packet.${family}`, run: (signal) => firstPacket(scene, family, signal) },
  ];
}

function asked(scene: Scene, family: Family, role: 'client' | 'web'): Trial[] {
  const address = addressOfGuarded(scene, family);
  return scene.plan.nodes.map((_, index) => {
    const from = demoPod(scene, role, index + 1);
    return { label: `${from.name} → ${guardedPod}`, probe: { from: from.netns, address, port: podPort } };
  });
}

/** Clients that no policy names get no answer, from the pod's own node and from others. */
async function denied(scene: Scene, family: Family): Promise<Verdict> {
  const tries = asked(scene, family, 'web').flatMap((trial) => (['tcp', 'udp'] as const).map((protocol) => ({ ...trial, protocol })));
  const problems = await inParallel(tries, async ({ label, protocol, probe: { from, address } }) => {
    const outcome = await ask({ from, address, protocol, port: podPort, timeoutMs: deniedMs });
    return outcome.is === 'TIMEOUT' ? [] : [`${label} ${protocol}: ${outcomeText(outcome)}`];
  });
  const through = problems.flat();
  return { ok: through.length === 0, detail: `${tries.length - through.length} of ${tries.length} denied${list(through)}` };
}

/** An established connection while its policy is removed and restored. */
async function livingConnection(scene: Scene, family: Family, signal: AbortSignal): Promise<Verdict> {
  const client = demoPod(scene, 'client', scene.plan.nodes.length);
  const address = addressOfGuarded(scene, family);
  const stream = await DatagramStream.start({ from: client.netns, address, port: podPort, everyMs: 2 * everyMs[scene.plan.datapath] });
  try {
    if (!(await within(() => stream.isAnswered, signal))) return { ok: false, detail: 'was never answered' };
    const cutMs = await changed(
      () => scene.setClientsMayAsk(false),
      () => stream.isSilent,
    );
    const healedMs = await changed(
      () => scene.setClientsMayAsk(true),
      () => stream.isAnswered,
    );
    const ok = cutMs !== undefined && healedMs !== undefined;
    const after = (ms: number | undefined) => (ms === undefined ? 'never' : `after ${ms} ms`);
    return { ok, detail: `ends ${after(cutMs)}, goes on ${after(healedMs)}` };
  } finally {
    stream.close();
  }

  async function changed(change: () => Promise<void>, holds: () => boolean): Promise<number | undefined> {
    await change();
    const startMs = performance.now();
    return (await within(holds, signal)) ? Math.round(performance.now() - startMs) : undefined;
  }
}

/** A pod without allowed peers receives nothing, though datagrams were sent to its address before it existed. */
async function firstPacket(scene: Scene, family: Family, signal: AbortSignal): Promise<Verdict> {
  const stranger = demoPod(scene, 'web', 1);
  const targets = nextAddresses(scene, family);
  const streams = await Promise.all(
    targets.map((address) => DatagramStream.start({ from: stranger.netns, address, port: podPort, everyMs: everyMs[scene.plan.datapath] })),
  );
  const name = `late-${family}`;
  try {
    const pod = await scene.addGuarded(name, signal);
    const address = ofFamily(pod.ips, family);
    if (!targets.includes(address)) return { ok: false, detail: `got ${address}, which was not guessed` };
    const stream = streams[targets.indexOf(address)];
    const sentBefore = stream?.sent ?? 0;
    await within(() => (stream?.sent ?? 0) > sentBefore + moreDatagrams[scene.plan.datapath], signal);
    const received = await datagramsReceived(pod.netns, family, signal);
    return { ok: received === 0, detail: `${stream?.sent} datagrams sent since before it was there, ${received} received` };
  } finally {
    for (const stream of streams) stream.close();
    await scene.removeGuarded(name, signal);
  }
}

/** Addresses are allocated in order: those after the last one of the first node's pods. */
function nextAddresses({ plan, status }: Scene, family: Family): readonly string[] {
  const [first] = plan.nodes;
  const used = status.pods
    .filter(({ node, netns }) => node === first?.name && netns !== first.netns)
    .flatMap(({ ips }) => ips.map(parseIp).filter((ip) => ip.family === family));
  const last = used.reduce<Ip | undefined>((most, ip) => (most === undefined || ip.value > most.value ? ip : most), undefined);
  if (last === undefined) throw new SeineError('INVARIANT', `no pod of the first node has an ${family} address`);
  return Array.from({ length: guesses }, (_, at) => ipFromValue(family, last.value + BigInt(at) + 1n).text);
}

/** Datagrams received by the kernel's own counters: for sockets, and for ports without a listener. */
async function datagramsReceived(netns: string, family: Family, signal: AbortSignal): Promise<number> {
  if (family === 'ipv6') {
    const text = await runIn(netns, 'cat', ['/proc/net/snmp6'], {}, signal);
    return [...text.matchAll(/^Udp6(?:InDatagrams|NoPorts)\s+(\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
  }
  const text = await runIn(netns, 'cat', ['/proc/net/snmp'], {}, signal);
  const [, received = '', silentReplies = ''] = /^Udp: (\d+) (\d+) /m.exec(text) ?? [];
  return Number(received) + Number(silentReplies);
}

async function within(holds: () => boolean, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + followMs;
  while (!holds()) {
    if (performance.now() > deadline || signal.aborted) return false;
    await sleep(pollMs);
  }
  return true;
}

function addressOfGuarded({ status }: Scene, family: Family): string {
  const pod = status.pods.find(({ namespace, name }) => namespace === guardedNamespace && name === guardedPod);
  return ofFamily(pod?.ips ?? [], family);
}

function list(problems: readonly string[]): string {
  return problems.length === 0 ? '' : `; ${problems.slice(0, 4).join('; ')}`;
}
