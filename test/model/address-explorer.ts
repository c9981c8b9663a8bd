import type { Bug, InjectedFault } from './address-faults.ts';
import { AddressWorld } from './address-world.ts';

export interface Step {
  readonly name: string;
  /** False if it would change nothing. */
  readonly applies: (world: AddressWorld) => boolean;
  readonly run: (world: AddressWorld) => Promise<void> | void;
}

export interface Exploration {
  readonly pools: readonly string[];
  readonly containers: readonly string[];
  readonly bug?: Bug;
  /** Maximum number of states, each of which is reached by the shortest path. */
  readonly statesMax: number;
  /** All steps if absent. */
  readonly steps?: readonly Step[];
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  /** Steps to the farthest state. */
  readonly depth: number;
  /** True if there are no further states. */
  readonly complete: boolean;
  /** The first violated invariant, and the steps to it. */
  readonly fault?: { readonly steps: readonly string[]; readonly what: readonly string[] };
}

const addFaults: readonly InjectedFault[] = [
  'none',
  'diskFull',
  'refused',
  'syncFails',
  'machineDiesInWrite',
  'machineDiesInSync',
  'diesInSync',
  'diesBeforeLink',
  'diesAfterLink',
  'diesBeforeAnswer',
  'pluginGone',
];
const delFaults: readonly InjectedFault[] = ['none', 'diesBeforeLink', 'diesAfterLink', 'diesBeforeAnswer'];

/** All events of these containers and their node. */
function stepsFor(containers: readonly string[]): readonly Step[] {
  const ofContainers = containers.flatMap((container): Step[] => [
    ...addFaults.map((mishap) => ({
      name: `ADD ${container} ${mishap}`,
      applies: (world: AddressWorld) => world.isUp && !world.live.has(container),
      run: (world: AddressWorld) => world.add(container, mishap),
    })),
    ...delFaults.map((mishap) => ({
      name: `DEL ${container} ${mishap}`,
      applies: (world: AddressWorld) => mishap === 'none' || world.isUp,
      run: (world: AddressWorld) => world.del(container, mishap),
    })),
    { name: `lose ${container}`, applies: (world) => world.live.has(container), run: (world) => world.lose(container) },
  ]);
  return [
    ...ofContainers,
    { name: 'kernel finishes', applies: (world) => world.going.size > 0, run: (world) => world.kernelFinishes() },
    { name: 'API catches up', applies: () => true, run: (world) => world.apiCatchesUp() },
    { name: 'GC', applies: (world) => world.isUp, run: (world) => world.collectGarbage() },
    { name: 'reclaim', applies: (world) => world.isUp, run: (world) => world.reclaim() },
    { name: 'kill', applies: (world) => world.isUp, run: (world) => world.kill() },
    { name: 'start', applies: (world) => !world.isUp, run: (world) => world.start() },
    { name: 'reboot', applies: () => true, run: (world) => world.reboot() },
  ];
}

/**
 * Visits every reachable state, nearest first, until there are no more or `statesMax` is reached, and in each completes all operations to
 * check for leaks. A state is reached again for each step from it, because the code under test cannot be copied.
 *
 * States are equal if their leases, attachments, views and records are; the position of the search for the next address in the pool is
 * ignored.
 */
export async function explore({ pools, containers, bug, statesMax, steps = stepsFor(containers) }: Exploration): Promise<Explored> {
  const seen = new Set<string>();
  const queue: (readonly Step[])[] = [[]];
  let transitions = 0;
  let depth = 0;
  for (const path of queue) {
    for (const step of steps) {
      const world = new AddressWorld(pools, bug);
      await world.start();
      for (const before of path) await before.run(world);
      if (!step.applies(world)) continue;
      await step.run(world);
      await world.check();
      transitions++;
      const key = await world.key();
      const isNew = !seen.has(key);
      if (isNew) await world.settle();
      const way = [...path, step];
      if (world.faults.length > 0) {
        const fault = { steps: way.map(({ name }) => name), what: world.faults };
        return { states: seen.size, transitions, depth, complete: false, fault };
      }
      if (!isNew || seen.size >= statesMax) continue;
      seen.add(key);
      depth = way.length;
      queue.push(way);
    }
    if (seen.size >= statesMax) return { states: seen.size, transitions, depth, complete: false };
  }
  return { states: seen.size, transitions, depth, complete: true };
}
