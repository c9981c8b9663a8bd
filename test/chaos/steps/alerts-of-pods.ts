import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { handNamespace, plugin } from '../hand-pods.ts';
import { run, runIn } from '../host.ts';
import type { StepKind } from '../step.ts';
import { policyCreated } from './alerts-of-api.ts';
import { frozen, killed, startAgent } from './life.ts';
import { type Course, raising } from './raising.ts';

/** More addresses than a node of the lab has. */
const addressesMost = 1_100;
/** More than may stay in quarantine. */
const quarantinedLeast = 24;
const atOnce = 8;
/** Above the permitted waiting time of a pod. */
const slowMs = 3_500;

type Attach = (containerId: string) => Promise<string>;

/** Attaches by hand; every attachment is detached in the end. */
async function byHand({ scene: { lab }, undo }: Course): Promise<{ readonly add: Attach; readonly del: Attach }> {
  const { netns, remove } = await handNamespace(lab);
  undo(remove);
  const there = new Set<string>();
  const of = (containerId: string) => ({ containerId, ifName: `e${containerId.replace(/\D/g, '')}`, netns });
  const del: Attach = async (containerId) => {
    const output = await plugin(lab, 'DEL', of(containerId));
    there.delete(containerId);
    return output;
  };
  undo(async () => {
    for (const ids of slices([...there], atOnce)) await Promise.all(ids.map(del));
  });
  const add: Attach = (containerId) => {
    there.add(containerId);
    return plugin(lab, 'ADD', of(containerId));
  };
  return { add, del };
}

function slices<T>(all: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size));
}

function numbered(first: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `hand${first + index}`);
}

export const alertsOfPods: readonly StepKind[] = [
  raising('pods closed', {
    alerts: ['SeinePodsBlocked', 'SeineProblem'],
    begin: async (course) => {
      // With a policy, a pod that the API server does not know has no labels to be matched.
      await policyCreated(course, { podSelector: { matchLabels: { app: 'unused' } } });
      const { add } = await byHand(course);
      await add('hand1');
    },
  }),
  raising('pods fail', {
    alerts: ['SeinePodsFail'],
    begin: async ({ scene: { lab } }) => {
      let number = 0;
      return async () => {
        const container = { containerId: `nowhere${number++}`, ifName: 'eth0', netns: 'nowhere' };
        await plugin(lab, 'ADD', container).catch(() => undefined);
        await plugin(lab, 'DEL', container);
      };
    },
  }),
  raising('pods slow', {
    alerts: ['SeinePodsSlow'],
    begin: async (course) => {
      const { add } = await byHand(course);
      let times = 0;
      // On a busy host the plugin itself is late.
      return async () => {
        const stopped = sleep(slowMs * ++times);
        const added = frozen(course.scene.lab, 'vswitchdPid', async () => {
          const adding = Promise.allSettled([add(`hand${times}`)]);
          await stopped;
          return { adding };
        });
        const [outcome] = await (await added).adding;
        if (outcome.status === 'rejected') throw outcome.reason;
      };
    },
  }),
  // A node of the lab has a thousand: this takes minutes.
  raising('addresses', {
    alerts: ['SeineAddressesShort', 'SeineAddressesGone'],
    begin: async (course) => {
      const { add } = await byHand(course);
      const isGone = (): boolean => course.scene.alerts?.missing(['SeineAddressesGone']).length === 0;
      // One or the other is rejected on a busy host, before the addresses are exhausted.
      for (let first = 0; first < addressesMost && !isGone(); first += atOnce) await Promise.allSettled(numbered(first, atOnce).map(add));
    },
  }),
  raising('quarantine', {
    alerts: ['SeineQuarantineStays'],
    begin: async (course) => {
      const { add, del } = await byHand(course);
      // Released addresses stay in quarantine until the check, each quarter of a minute.
      return async () => {
        const all = numbered(0, quarantinedLeast);
        await Promise.all(all.map(add));
        await Promise.all(all.map(del));
      };
    },
  }),
  raising('journal', {
    alerts: ['SeineJournalFailed'],
    begin: async (course) => {
      const { add, del } = await byHand(course);
      const fill = join(course.scene.lab.stateDir, 'fill');
      course.undo(() => rmSync(fill));
      await run('sh', ['-c', `dd if=/dev/zero of='${fill}' bs=4k 2>/dev/null; true`]);
      let number = 0;
      // The last page of the journal has room for a few more.
      return async () => {
        const id = `hand${number++}`;
        await add(id).catch(() => undefined);
        await del(id).catch(() => undefined);
      };
    },
  }),
  raising('deletions wait', {
    alerts: ['SeineDeletionsWait'],
    begin: async (course) => {
      const { lab } = course.scene;
      const { add, del } = await byHand(course);
      await add('hand1');
      await killed(lab, 'agentPid');
      try {
        await del('hand1');
      } finally {
        await frozen(lab, 'ovsdbPid', async () => {
          await startAgent(lab);
          await course.scene.alerts?.until('SeineDeletionsWait', 10_000);
        });
        await lab.untilReady();
      }
    },
  }),
  raising('node warning', {
    alerts: ['SeineNodeWarning'],
    // Inside pods only the sweep checks, once a minute at least.
    withinMs: 90_000,
    begin: async ({ scene: { lab }, undo }) => {
      const pod = (await lab.pods()).find(({ namespace, name }) => namespace === 'shop' && name === 'cli-0');
      if (pod === undefined) throw new Error('shop/cli-0 has no network');
      const inside = (...words: readonly string[]): Promise<string> => runIn(pod.netns, 'ip', ['-6', 'route', ...words]);
      const gateway = /via (\S+)/.exec(await inside('show', 'default'))?.[1];
      if (gateway === undefined) throw new Error('shop/cli-0 has no default route');
      undo(() => inside('add', 'default', 'via', gateway, 'dev', 'eth0'));
      await inside('delete', 'default');
    },
  }),
];
