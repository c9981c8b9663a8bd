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
  /** Where it can be done. */
  readonly where?: (scene: Scene) => boolean;
  readonly begin: Begin;
}

/**
 * A kind of step that harms a node until an alert is true, or its time is over, and then puts back what it did: the alert must have become true
 * (`Watch`), and be false once the node is as it ought to be. Such kinds are drawn nowhere (`steps/all.ts`).
 */
export function raising(name: string, { alerts, withinMs = 60_000, where, begin, ...more }: Raising): StepKind {
  return {
    name: `alert.${name}`,
    changes: 'node',
    deadline: 'looked',
    alone: true,
    ...more,
    alerts,
    draw: (scene, random) =>
      where?.(scene) === false ? undefined : { what: '', act: () => bringAbout({ scene, random }, alerts, withinMs, begin) },
  };
}

async function bringAbout(of: Omit<Course, 'undo'>, alerts: readonly string[], withinMs: number, begin: Begin): Promise<void> {
  const backs: (() => Promise<unknown> | void)[] = [];
  try {
    const again = await begin({ ...of, undo: (back) => backs.push(back) });
    await untilTrue(of.scene, alerts, withinMs, again ?? undefined);
  } finally {
    for (const back of backs.reverse()) await back();
  }
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
