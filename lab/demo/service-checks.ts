import type { Family } from '../../src/base/net/ip.ts';
import type { NetnsRef } from '../plan/names.ts';
import { ask, type Outcome } from '../probe/probe.ts';
import { addressOf, type DemoCheck, demoPod, eventually, inParallel, ofFamily, outcomeText, type Scene, type Verdict } from './scene.ts';
import { demoNamespace, podPort } from './workload.ts';

const probeTimeoutMs = 3_000;
/** With this number, one endpoint of three is missed by chance once in ten thousand times. */
const spreadProbes = 24;

/** ClusterIP Services, for one family. */
export function serviceChecks(scene: Scene, family: Family): DemoCheck[] {
  return [
    { name: `service.spread.${family}`, run: () => eventually(() => spread(scene, family)) },
    { name: `service.hairpin.${family}`, run: () => eventually(() => hairpin(scene, family)) },
    { name: `service.empty-refused.${family}`, run: () => eventually(() => emptyRefused(scene, family)) },
  ];
}

/** From a pod of every node and from every node itself, every endpoint is reached, over TCP and UDP. */
async function spread(scene: Scene, family: Family): Promise<Verdict> {
  const endpoints = scene.plan.nodes.map((_, index) => `${demoNamespace}/web-${index + 1}`);
  const address = ofFamily(scene.services.web, family);
  const tries = placesOf(scene).flatMap((from) =>
    Array.from({ length: spreadProbes }, (_, index) => ({ from, protocol: index % 2 === 0 ? ('tcp' as const) : ('udp' as const) })),
  );
  const outcomes = await inParallel(tries, ({ from: [, from], protocol }) =>
    ask({ from, protocol, address, port: podPort, timeoutMs: probeTimeoutMs }),
  );
  const answered = outcomes.flatMap((outcome) => (outcome.is === 'OK' ? [outcome.answer.pod] : []));
  const counts = endpoints.map((pod) => `${pod.replace(`${demoNamespace}/`, '')} ${answered.filter((one) => one === pod).length}`);
  const everyoneMetAll = placesOf(scene).every(([name]) =>
    endpoints.every((pod) =>
      outcomes.some((outcome, index) => tries[index]?.from[0] === name && outcome.is === 'OK' && outcome.answer.pod === pod),
    ),
  );
  const failed = outcomes.find(({ is }) => is !== 'OK');
  return { ok: failed === undefined && everyoneMetAll, detail: `${failed ? `${outcomeText(failed)}; ` : ''}${counts.join(', ')}` };
}

/** A pod reaches itself through its Service, and does not see itself as the client. */
async function hairpin(scene: Scene, family: Family): Promise<Verdict> {
  const client = demoPod(scene, 'client', 1);
  const address = ofFamily(scene.services.loop, family);
  const own = ofFamily(client.ips, family);
  const outcomes = await Promise.all(
    (['tcp', 'udp'] as const).map((protocol) => ask({ from: client.netns, protocol, address, port: podPort, timeoutMs: probeTimeoutMs })),
  );
  const failed = outcomes.find((outcome) => outcome.is !== 'OK' || addressOf(outcome.answer.client) === own);
  const seenAs = outcomes.map((outcome) => (outcome.is === 'OK' ? `seen as ${addressOf(outcome.answer.client)}` : outcomeText(outcome)));
  return { ok: failed === undefined, detail: [...new Set(seenAs)].join(', ') };
}

/** Checks that connections are refused immediately, so that a client does not wait for a timeout. */
async function emptyRefused(scene: Scene, family: Family): Promise<Verdict> {
  const address = ofFamily(scene.services.empty, family);
  const outcomes = await inParallel(
    placesOf(scene).flatMap(([name, from]) => (['tcp', 'udp'] as const).map((protocol) => ({ name, from, protocol }))),
    async ({ name, from, protocol }): Promise<[string, Outcome]> => [
      `${name} ${protocol}`,
      await ask({ from, protocol, address, port: podPort, timeoutMs: probeTimeoutMs }),
    ],
  );
  const failed = outcomes.filter(([, outcome]) => outcome.is !== 'REFUSED').map(([label, outcome]) => `${label}: ${outcomeText(outcome)}`);
  const slowest = Math.max(...outcomes.map(([, { ms }]) => ms));
  return failed.length === 0
    ? { ok: true, detail: `${outcomes.length} of ${outcomes.length}, the slowest after ${slowest} ms` }
    : { ok: false, detail: failed.slice(0, 4).join('; ') };
}

/** A client on each node, and each node itself. */
function placesOf(scene: Scene): [name: string, NetnsRef][] {
  return scene.plan.nodes.flatMap((node, index): [string, NetnsRef][] => [
    [`client-${index + 1}`, demoPod(scene, 'client', index + 1).netns],
    [node.name, node.netns],
  ]);
}
