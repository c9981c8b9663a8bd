import type { Bug, InjectedFault } from './address-faults.ts';
import { AddressModel } from './address-model.ts';

export interface Step {
  readonly name: string;
  /** False if it would change nothing. */
  readonly applies: (model: AddressModel) => boolean;
  readonly run: (model: AddressModel) => Promise<void> | void;
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
      applies: (model: AddressModel) => model.isUp && !model.live.has(container),
      run: (model: AddressModel) => model.add(container, mishap),
    })),
    ...delFaults.map((mishap) => ({
      name: `DEL ${container} ${mishap}`,
      applies: (model: AddressModel) => mishap === 'none' || model.isUp,
      run: (model: AddressModel) => model.del(container, mishap),
    })),
    { name: `lose ${container}`, applies: (model) => model.live.has(container), run: (model) => model.lose(container) },
  ]);
  return [
    ...ofContainers,
    { name: 'kernel finishes', applies: (model) => model.going.size > 0, run: (model) => model.kernelFinishes() },
    { name: 'API catches up', applies: () => true, run: (model) => model.apiCatchesUp() },
    { name: 'GC', applies: (model) => model.isUp, run: (model) => model.collectGarbage() },
    { name: 'reclaim', applies: (model) => model.isUp, run: (model) => model.reclaim() },
    { name: 'kill', applies: (model) => model.isUp, run: (model) => model.kill() },
    { name: 'start', applies: (model) => !model.isUp, run: (model) => model.start() },
    { name: 'reboot', applies: () => true, run: (model) => model.reboot() },
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
      const model = new AddressModel(pools, bug);
      await model.start();
      for (const before of path) await before.run(model);
      if (!step.applies(model)) continue;
      await step.run(model);
      await model.check();
      transitions++;
      const key = await model.key();
      const isNew = !seen.has(key);
      if (isNew) await model.settle();
      const way = [...path, step];
      if (model.faults.length > 0) {
        const fault = { steps: way.map(({ name }) => name), what: model.faults };
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
