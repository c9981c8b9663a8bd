import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import type { StepKind } from '../step.ts';

const pauseMs = 200;

/** What brings an alert about. */
export interface Course {
  readonly scene: Scene;
  readonly random: Random;
  /** What has to be done in the end, whatever happens: the last that was given comes first. */
  readonly undo: (back: () => Promise<unknown> | void) => void;
}

/** Begins it. @returns what to do again until the alert is true, if it does not become so by waiting */
type Begin = (course: Course) => Promise<(() => Promise<unknown>) | void>;

export interface Raising extends Partial<Pick<StepKind, 'deadline' | 'harmless' | 'forgets' | 'part'>> {
  readonly alerts: readonly string[];
  /** How long they may take to become true (ms). */
  readonly withinMs?: number;
  /** How long they may stay true once all is put back, before the node is judged (ms). */
  readonly settlesMs?: number;
  /** Where it can be done. */
  readonly where?: (scene: Scene) => boolean;
  readonly begin: Begin;
}

/**
 * A kind of step that harms a node until an alert is true, or its time is over, and then puts back what it did: the alert must have become true
 * (`Watch`), and be false once the node is as it ought to be. Such kinds are drawn nowhere (`steps/all.ts`).
 */
export function raising(name: string, { alerts, withinMs = 60_000, settlesMs = 0, where, begin, ...more }: Raising): StepKind {
  return {
    name: `alert.${name}`,
    changes: 'node',
    deadline: 'looked',
    alone: true,
    ...more,
    alerts,
    draw: (scene, random) => {
      if (where?.(scene) === false) return undefined;
      const act = () => bringAbout({ scene, random }, alerts, withinMs, begin);
      return { what: '', act, settled: () => untilFalse(scene, alerts, settlesMs) };
    },
  };
}

async function bringAbout(of: Omit<Course, 'undo'>, alerts: readonly string[], withinMs: number, begin: Begin): Promise<void> {
  const backs: (() => Promise<unknown> | void)[] = [];
  try {
    const again = await begin({ ...of, undo: (back) => backs.push(back) });
    await untilTrue(of.scene, alerts, withinMs, again ?? undefined);
  } finally {
    await putBack(backs.reverse());
  }
}

async function untilFalse({ alerts: watch }: Scene, alerts: readonly string[], withinMs: number): Promise<void> {
  const [overMs, since] = [performance.now() + withinMs, watch?.looks ?? 0];
  while (performance.now() < overMs) {
    const told = (await watch?.firing(since, alerts)) ?? [];
    if (!told.some((one) => alerts.includes(one.split(' ', 1)[0] ?? ''))) return;
    await sleep(pauseMs);
  }
}

/** All, whatever fails of it. @throws what failed first */
async function putBack(backs: readonly (() => Promise<unknown> | void)[]): Promise<void> {
  const failed: unknown[] = [];
  for (const back of backs) {
    try {
      await back();
    } catch (thrown) {
      failed.push(thrown);
    }
  }
  if (failed.length > 0) throw failed[0];
}

async function untilTrue(
  { alerts: watch }: Scene,
  alerts: readonly string[],
  withinMs: number,
  again?: () => Promise<unknown>,
): Promise<void> {
  const overMs = performance.now() + withinMs;
  const open = (): readonly string[] => watch?.missing(alerts) ?? [];
  while (open().length > 0 && performance.now() < overMs) {
    await again?.();
    await sleep(pauseMs);
  }
}
