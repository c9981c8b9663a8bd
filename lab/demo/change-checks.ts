import { setTimeout as sleep } from 'node:timers/promises';
import type { Family } from '../../src/base/net/ip.ts';
import { ConnectionStream } from '../probe/connection-stream.ts';
import { type DemoCheck, demoPod, eventually, ofFamily, type Scene, type Trial, tryAll, type Verdict } from './scene.ts';
import { demoNamespace, podPort } from './workload.ts';

/** Connections a second. The kernel's data path is mostly tested in emulation, where a higher rate would starve the agent. */
const perSecond = { netdev: 200, system: 10 };
const connectionsAround = 40;
/** With this number for each protocol, one endpoint of three is missed by chance once in thirty thousand times. */
const probesOfNode = 26;
const followMs = 20_000;
const triesMax = 3;
const pollMs = 50;

/** Node ports, and a Service that changes while it is used, for one family. */
export function changeChecks(scene: Scene, family: Family): DemoCheck[] {
  return [
    { name: `nodeport.outside.${family}`, run: () => eventually(() => nodePortFromOutside(scene, family)) },
    { name: `service.removed-under-load.${family}`, run: (signal) => removedWithoutLoss(scene, family, signal) },
  ];
}

/** An external client reaches every endpoint by every node's own address, over TCP and UDP. */
async function nodePortFromOutside({ plan, nodePorts }: Scene, family: Family): Promise<Verdict> {
  const answered = new Map<string, Set<string>>();
  const trials = plan.nodes.flatMap(({ name, ips }): Trial[] =>
    Array.from({ length: probesOfNode }, () => ({
      label: `outside → ${name}`,
      probe: { from: plan.external.netns, address: ofFamily(ips, family), port: nodePorts },
      wrong: ({ pod, protocol }) => {
        answered.set(`${name} ${protocol}`, (answered.get(`${name} ${protocol}`) ?? new Set()).add(pod));
        return undefined;
      },
    })),
  );
  const verdict = await tryAll(trials);
  const partly = [...answered]
    .filter(([, pods]) => pods.size < plan.nodes.length)
    .map(([where, pods]) => `${where}: ${pods.size} endpoints`);
  if (!verdict.ok || partly.length > 0) return { ok: false, detail: [verdict.detail, ...partly].join('; ') };
  return { ok: true, detail: `${verdict.detail}, every endpoint by each of ${plan.nodes.length} nodes` };
}

/**
 * The userspace data path on a busy host loses packets also when nothing changes; a change that loses connections loses them every time.
 * Losses of earlier tries are reported.
 */
async function removedWithoutLoss(scene: Scene, family: Family, signal: AbortSignal): Promise<Verdict> {
  const earlier: string[] = [];
  for (;;) {
    const { ok, detail } = await removedUnderLoad(scene, family, signal);
    if (ok || earlier.length === triesMax - 1) return { ok, detail: [detail, ...earlier].join('; before that: ') };
    earlier.push(detail);
  }
}

/** Removes an endpoint and restores it while connections are opened: each is answered, and none by the removed endpoint. */
async function removedUnderLoad(scene: Scene, family: Family, signal: AbortSignal): Promise<Verdict> {
  const { plan, services } = scene;
  const [leaving, client] = [demoPod(scene, 'web', 1).name, demoPod(scene, 'client', plan.nodes.length)];
  const rate = perSecond[plan.datapath];
  const address = ofFamily(services.rolling, family);
  const stream = new ConnectionStream({ from: client.netns, address, port: podPort, perSecond: rate });
  const answers = () => stream.answeredBy(`${demoNamespace}/${leaving}`);
  const more = async (count: number) => {
    for (const goal = stream.opened + count; stream.opened < goal && !signal.aborted; ) await sleep(pollMs);
  };
  let gone = false;
  let back = false;
  try {
    await more(connectionsAround);
    await scene.setRolling(leaving, false);
    gone = await until(async () => {
      const before = answers();
      await more(connectionsAround);
      return answers() === before;
    });
    const before = answers();
    await scene.setRolling(leaving, true);
    back = await until(async () => answers() > before);
  } finally {
    await scene.setRolling(leaving, true);
  }
  const { opened, failed, late, failures } = await stream.stop();
  const followed = gone ? (back ? 'taken out and put back' : 'is not put back') : 'is not taken out';
  const lost = failed > 0 ? `, ${failed} lost: ${failures.join(', ')}` : ', none lost';
  return {
    ok: gone && back && failed === 0,
    detail: `${leaving} ${followed} under ${opened} connections${lost}${late > 0 ? `, ${late} late` : ''}`,
  };
}

async function until(holds: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + followMs;
  while (!(await holds())) {
    if (performance.now() > deadline) return false;
    await sleep(pollMs);
  }
  return true;
}
