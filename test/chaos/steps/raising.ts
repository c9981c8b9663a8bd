import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import type { StepKind } from '../step.ts';

const pauseMs = 200;

/** Action that raises an alert. */
export interface Course {
  readonly scene: Scene;
  readonly random: Random;
  /** Registers clean-up, executed in any case: the last registered comes first. */
  readonly undo: (back: () => Promise<unknown> | void) => void;
}

/** Starts it. @returns function to repeat until the alert is true, if waiting is not enough */
type Begin = (course: Course) => Promise<(() => Promise<unknown>) | void>;

export interface Raising extends Partial<Pick<StepKind, 'deadline' | 'harmless' | 'forgets' | 'part'>> {
  readonly alerts: readonly string[];
  /** Maximum time until they become true (ms). */
  readonly withinMs?: number;
  /** Maximum time for which they may stay true after the clean-up, before the node is judged (ms). */
  readonly settlesMs?: number;
  /** Condition for the step. */
  readonly where?: (scene: Scene) => boolean;
  readonly begin: Begin;
}

/**
 * A kind of step that injects a fault until an alert is true, or its time is over, and then undoes it: the alert must have become true
 * (`Watch`), and be false once the node is correct. Such kinds are never drawn (`steps/all.ts`).
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
    const firing = (await watch?.firing(since, alerts)) ?? [];
    if (!firing.some((one) => alerts.includes(one.split(' ', 1)[0] ?? ''))) return;
    await sleep(pauseMs);
  }
}

/** Executes all, whatever fails. @throws the first error */
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
