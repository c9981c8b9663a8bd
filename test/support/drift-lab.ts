import { get } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { DemoManifest } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { PartName } from '../../src/api/entry.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { ConvergeLab, until } from './converge-lab.ts';
import { type HeldStateId, heldStates } from './held-states.ts';
import { slowness } from './test-datapath.ts';

/** A foreign change of the node, and a check with the tools of the system that it is undone. */
export interface ForeignChange {
  readonly what: string;
  readonly change: () => Promise<unknown>;
  /** The changed state; the same before the change and after the repair, and different meanwhile. Null while it cannot be read. */
  readonly observed: () => Promise<string | null>;
  /** Target in the status that counts it. Absent: Open vSwitch undoes it by itself, mostly before the agent has checked. */
  readonly part?: PartName;
  /**
   * Injection without an agent, whose start is expensive: together with the others of its list unless it removes their
   * targets.
   */
  readonly whileStopped?: 'alone' | 'never';
}

/** Time of an agent's start, on a busy host. */
const startedWithinMs = 90_000;
/** Longest delay of a repair because the same entry has been changed often, which the tests of a row do together. */
const delayedMost = 60_000;
const pollMs = 10;

/** A lab of two nodes for tests that change the first of them, with and without its agent. */
export class DriftLab {
  readonly lab: ConvergeLab;

  private constructor(lab: ConvergeLab) {
    this.lab = lab;
  }

  static async start(more: readonly DemoManifest[] = []): Promise<DriftLab> {
    const lab = await ConvergeLab.start(2);
    await lab.startPods(more);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
    return new DriftLab(lab);
  }

  /** Runs a command on the changed node. */
  exec(command: string, ...args: readonly string[]): Promise<string> {
    return this.lab.exec(1, command, ...args);
  }

  ofctl(...args: readonly string[]): Promise<string> {
    return this.exec('ovs-ofctl', '-O', 'OpenFlow15', ...args);
  }

  vsctl(...args: readonly string[]): Promise<string> {
    return this.exec('ovs-vsctl', ...args);
  }

  ip(...args: readonly string[]): Promise<string> {
    return this.exec('ip', ...args);
  }

  /** The node's end of a pod's interface. */
  async hostInterface(pod: string): Promise<string> {
    return await this.lab.nodeEnd(1, pod);
  }

  async status(): Promise<AgentStatus> {
    const { apiSocket } = nodePaths(this.lab.plan.dir, this.lab.node(1).name);
    const body = await new Promise<string>((resolve, reject) => {
      const asked = get({ socketPath: apiSocket, path: '/v1/status', agent: false }, (answer) => void text(answer).then(resolve, reject));
      asked.once('error', reject);
    });
    return JSON.parse(body) as AgentStatus;
  }

  /** Injects a change while the agent runs: the status must count it, and the state be restored, within the row's time. */
  async changeWhileRunning(row: HeldStateId, { what, change, observed, part }: ForeignChange): Promise<void> {
    const before = await observed();
    const counted = await this.#drift(part);
    await change();
    let [now, drift]: [string | null, number] = [null, counted];
    const isRepaired = async (): Promise<boolean> => {
      [now, drift] = [await observed(), await this.#drift(part)];
      return now === before && (part === undefined || drift > counted);
    };
    const tookMs = await this.#untilRepaired(isRepaired, heldStates[row].withinMs, () =>
      now === before ? `${what}: not counted by the status` : `${what}: not repaired: ${difference(before, now)}`,
    );
    console.log(`${row}, agent alive: ${what}: said and repaired after ${tookMs} ms`);
  }

  /**
   * Polls until a condition is true. Time in which the agent delays repairs does not count: it does so after several foreign changes of the
   * same entry, and a busy host may make several of one, such as a recreated interface that is seen before it has its settings.
   */
  async #untilRepaired(isRepaired: () => Promise<boolean>, withinMs: number, problem: () => string): Promise<number> {
    const startedMs = performance.now();
    let delayedMs = 0;
    for (let lastMs = startedMs; !(await isRepaired()); ) {
      const nowMs = performance.now();
      if (await this.#delaysRepairs()) delayedMs += nowMs - lastMs;
      lastMs = nowMs;
      const countedMs = nowMs - startedMs - Math.min(delayedMs, delayedMost);
      if (countedMs > withinMs * slowness) throw new Error(`${problem()} after ${withinMs * slowness} ms, and ${delayedMs} ms of delay`);
      await sleep(pollMs);
    }
    return Math.round(performance.now() - startedMs);
  }

  async #delaysRepairs(): Promise<boolean> {
    return (await this.status()).parts.some(({ contested }) => contested > 0);
  }

  /** Injects changes without an agent: the state must be restored once an agent has started. */
  async changeWhileStopped(row: HeldStateId, foreignChanges: readonly ForeignChange[]): Promise<void> {
    const before = await observeAll(foreignChanges);
    await this.lab.agent(1, 'kill');
    try {
      for (const { change } of foreignChanges) await change();
      const changed = await observeAll(foreignChanges);
      for (const [index, { what }] of foreignChanges.entries()) expect(changed[index], `${what}: harms`).not.toEqual(before[index]);
    } finally {
      await this.lab.agent(1, 'start');
      await this.lab.untilReady(1, startedWithinMs);
    }
    const startedMs = performance.now();
    for (const [index, { what, observed }] of foreignChanges.entries()) {
      let now: string | null = null;
      await until(
        async () => (now = await observed()) === before[index],
        heldStates[row].withinMs,
        () => `${what}: not repaired: ${difference(before[index] ?? null, now)}`,
      );
    }
    const names = foreignChanges.map(({ what }) => what).join(', ');
    console.log(`${row}, agent dead: ${names}: repaired ${Math.round(performance.now() - startedMs)} ms after READY`);
  }

  /** Packets pass after all of it. */
  async untilReached(): Promise<void> {
    await this.lab.untilReached(this.lab.pod('client-1'), this.lab.pod('web-1'));
    await this.lab.untilReached(this.lab.pod('client-1'), this.lab.pod('web-2'));
  }

  async #drift(part: PartName | undefined): Promise<number> {
    return (await this.status()).parts.find((each) => each.part === part)?.drift ?? 0;
  }
}

async function observeAll(foreignChanges: readonly ForeignChange[]): Promise<readonly (string | null)[]> {
  return await Promise.all(foreignChanges.map(({ observed }) => observed()));
}

/** Lines that are in one of two texts only. */
function difference(before: string | null, now: string | null): string {
  if (before === null || now === null) return String(now);
  const [had, has] = [before.split('\n'), now.split('\n')];
  const gone = had.filter((line) => !has.includes(line)).map((line) => `- ${line}`);
  const come = has.filter((line) => !had.includes(line)).map((line) => `+ ${line}`);
  return [...gone, ...come].join('\n');
}

/** Tests that each of these changes to one row of the table is detected and undone. */
export function driftTests(row: HeldStateId, changed: () => DriftLab, foreignChanges: readonly ForeignChange[]): void {
  describe(heldStates[row].state, () => {
    it.each(foreignChanges)('$what, while the agent runs', async (foreignChange) => {
      await changed().changeWhileRunning(row, foreignChange);
    });

    const together = foreignChanges.filter(({ whileStopped }) => whileStopped === undefined);
    const batches = [
      together,
      ...foreignChanges.flatMap((foreignChange) => (foreignChange.whileStopped === 'alone' ? [[foreignChange]] : [])),
    ].filter(({ length }) => length > 0);
    it.each(batches.map((batch) => ({ batch, what: batch.map(({ what }) => what).join('; ') })))(
      '$what, while no agent runs',
      async ({ batch }) => {
        await changed().changeWhileStopped(row, batch);
        await changed().untilReached();
      },
    );
  });
}
