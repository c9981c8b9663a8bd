import { get } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { DemoManifest } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { PartName } from '../../src/api/entry.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { ConvergeLab, until } from './converge-lab.ts';
import { type HeldStateId, heldStates } from './held-states.ts';

/** A foreign change of the node, and a check with the tools of the system that it is undone. */
export interface Harm {
  readonly what: string;
  readonly change: () => Promise<unknown>;
  /** The changed state; the same before the change and after the repair, and different meanwhile. Null while it cannot be read. */
  readonly looked: () => Promise<string | null>;
  /** Target in the status that counts it. Absent: Open vSwitch undoes it by itself, mostly before the agent has checked. */
  readonly part?: PartName;
  /**
   * Injection without an agent, whose start is expensive: together with the others of its list unless it removes their
   * targets.
   */
  readonly dead?: 'alone' | 'never';
}

/** Time of an agent's start, on a busy host. */
const startedWithinMs = 90_000;

/** A lab of two nodes for tests that change the first of them, with and without its agent. */
export class HarmLab {
  readonly lab: ConvergeLab;

  private constructor(lab: ConvergeLab) {
    this.lab = lab;
  }

  static async start(more: readonly DemoManifest[] = []): Promise<HarmLab> {
    const lab = await ConvergeLab.start(2);
    await lab.startPods(more);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
    return new HarmLab(lab);
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
  async harmAlive(row: HeldStateId, { what, change, looked, part }: Harm): Promise<void> {
    const before = await looked();
    const counted = await this.#drift(part);
    await change();
    let now: string | null = null;
    let drift = counted;
    const tookMs = await until(
      async () => {
        [now, drift] = [await looked(), await this.#drift(part)];
        return now === before && (part === undefined || drift > counted);
      },
      heldStates[row].withinMs,
      () => `${what}: ${now === before ? 'not counted by the status' : `not repaired: ${difference(before, now)}`}`,
    );
    console.log(`${row}, agent alive: ${what}: said and repaired after ${tookMs} ms`);
  }

  /** Injects changes without an agent: the state must be restored once an agent has started. */
  async harmDead(row: HeldStateId, harms: readonly Harm[]): Promise<void> {
    const before = await looks(harms);
    await this.lab.agent(1, 'kill');
    try {
      for (const { change } of harms) await change();
      const harmed = await looks(harms);
      for (const [index, { what }] of harms.entries()) expect(harmed[index], `${what}: harms`).not.toEqual(before[index]);
    } finally {
      await this.lab.agent(1, 'start');
      await this.lab.untilReady(1, startedWithinMs);
    }
    const startedMs = performance.now();
    for (const [index, { what, looked }] of harms.entries()) {
      let now: string | null = null;
      await until(
        async () => (now = await looked()) === before[index],
        heldStates[row].withinMs,
        () => `${what}: not repaired: ${difference(before[index] ?? null, now)}`,
      );
    }
    const names = harms.map(({ what }) => what).join(', ');
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

async function looks(harms: readonly Harm[]): Promise<readonly (string | null)[]> {
  return await Promise.all(harms.map(({ looked }) => looked()));
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
export function harmTests(row: HeldStateId, harmed: () => HarmLab, harms: readonly Harm[]): void {
  describe(heldStates[row].state, () => {
    it.each(harms)('$what, while the agent runs', async (harm) => {
      await harmed().harmAlive(row, harm);
    });

    const together = harms.filter(({ dead }) => dead === undefined);
    const batches = [together, ...harms.flatMap((harm) => (harm.dead === 'alone' ? [[harm]] : []))].filter(({ length }) => length > 0);
    it.each(batches.map((batch) => ({ batch, what: batch.map(({ what }) => what).join('; ') })))(
      '$what, while no agent runs',
      async ({ batch }) => {
        await harmed().harmDead(row, batch);
        await harmed().untilReached();
      },
    );
  });
}
