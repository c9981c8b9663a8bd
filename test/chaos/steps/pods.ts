import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiObject } from '../api.ts';
import { run } from '../host.ts';
import type { Random } from '../random.ts';
import { keyOf, namespaces, pathOf, podObject, type Scene } from '../scene.ts';
import type { StepKind } from '../step.ts';

const most = 4;
const fullMs = 1_500;
const apps = ['web', 'db', 'cli'] as const;
/** The initial pods stay: probes start from them. */
const ofStep = /^come-/;

const created: StepKind = {
  name: 'pod.created',
  changes: 'objects',
  deadline: 'announced',
  draw: (scene, random) => {
    const { lab, podObjects } = scene;
    const namespace = random.pick(namespaces);
    const node = random.chance(0.7) ? lab.tried.name : lab.other.name;
    const pod = podObject({ name: `come-${random.below(most)}`, namespace, node, app: random.pick(apps) });
    if (podObjects.some((known) => keyOf(known) === keyOf(pod))) return undefined;
    return {
      what: `${keyOf(pod)} on ${node}`,
      act: () => lab.api.create(`/api/v1/namespaces/${namespace}/pods`, pod),
      settled: () => scene.podsRun(),
    };
  },
};

const comeBefore = ({ podObjects }: Scene, random: Random): ApiObject | undefined =>
  random.maybe(podObjects.filter(({ metadata }) => ofStep.test(metadata.name)));

const deleted: StepKind = {
  name: 'pod.deleted',
  changes: 'objects',
  deadline: 'announced',
  draw: (scene, random) => {
    const pod = comeBefore(scene, random);
    return pod && { what: keyOf(pod), act: () => scene.lab.api.delete(pathOf('pods', pod)), settled: () => scene.podsRun() };
  },
};

/** Deleted and recreated immediately, on the other node or on the same, with other addresses. */
const replaced: StepKind = {
  name: 'pod.replaced',
  changes: 'objects',
  deadline: 'announced',
  draw: (scene, random) => {
    const { api, tried, other } = scene.lab;
    const pod = comeBefore(scene, random);
    const [node, app] = [random.pick([tried.name, other.name]), random.pick(apps)];
    if (pod === undefined) return undefined;
    const { name, namespace = '' } = pod.metadata;
    return {
      what: `${keyOf(pod)} on ${node}`,
      act: async () => {
        await api.delete(`${pathOf('pods', pod)}?gracePeriodSeconds=0`);
        await api.create(`/api/v1/namespaces/${namespace}/pods`, podObject({ name, namespace, node, app }));
      },
      settled: () => scene.podsRun(),
    };
  },
};

/** While the disk of the agent's state is full: the agent may reject the pod, and must accept it once there is room. */
const onFullDisk: StepKind = {
  ...created,
  name: 'pod.created on a full disk',
  deadline: 'looked',
  draw: (scene, random) => {
    const deed = created.draw(scene, random);
    const fill = join(scene.lab.stateDir, 'fill');
    return (
      deed && {
        ...deed,
        act: async () => {
          await run('sh', ['-c', `dd if=/dev/zero of='${fill}' bs=4k 2>/dev/null; true`]);
          try {
            await deed.act();
            await sleep(fullMs);
          } finally {
            rmSync(fill);
          }
        },
      }
    );
  },
};

export const podSteps: readonly StepKind[] = [created, created, deleted, replaced, onFullDisk];
