import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import type { Otherwise } from './api-contradictions.ts';
import { ApiView, plainKubeconfig } from './api-view.ts';
import { run, runIn, startIn, until } from './host.ts';
import type { Lab } from './lab.ts';
import { killed, startAgent } from './steps/life.ts';

const port = 6_080;
const listensMs = 60_000;

/** Connection of the tested agent to the API server, through the driver, which delays or duplicates some events. */
export class TriedView {
  readonly #view: ApiView;
  readonly #relay: ChildProcess;
  readonly #log: number;

  private constructor(view: ApiView, relay: ChildProcess, log: number) {
    [this.#view, this.#relay, this.#log] = [view, relay, log];
  }

  /** Restarts the tested agent with this connection and no other. */
  static async open(lab: Lab, labId: string, seed: number): Promise<TriedView> {
    const socket = join(lab.dir, 'tried-view.sock');
    const view = await ApiView.open(socket, lab.api, { is: 'tried', seed });
    const log = openSync(join(lab.dir, 'tried-view.log'), 'a');
    const listen = `TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr,backlog=64`;
    const relay = startIn(lab.tried.netns, 'socat', [listen, `UNIX-CONNECT:${socket}`], log, { SEINE_LAB: labId });
    const opened = new TriedView(view, relay, log);
    try {
      await until(
        async () => (await runIn(lab.tried.netns, 'ss', ['-Hltn'])).includes(`:${port}`),
        listensMs,
        () => 'the way of the tried agent to the API server does not listen',
      );
      writeFileSync(join(lab.tried.rundir, 'kubeconfig'), stringify(plainKubeconfig(`http://127.0.0.1:${port}`)));
      await killed(lab, 'agentPid');
      await lab.giveSmallDisk();
      await startAgent(lab);
      await lab.untilReady();
      return opened;
    } catch (thrown) {
      opened.close();
      throw thrown;
    }
  }

  /** Stops the forwarding for a while: no data is sent, and no connection closed. */
  async stall(forMs: number): Promise<void> {
    const { pid } = this.#relay;
    const children = await run('pgrep', ['-P', String(pid)]).catch(() => '');
    const all = [pid, ...children.split('\n').filter(Boolean).map(Number)].filter((each) => each !== undefined);
    for (const each of all) signal(each, 'SIGSTOP');
    await sleep(forMs);
    for (const each of all) signal(each, 'SIGCONT');
  }

  /** Ends all connections. */
  cut(): void {
    this.#view.cut();
  }

  /** Sets the false state that the agent sees from now on. Its requests are repeated. */
  tell(otherwise?: Otherwise): void {
    this.#view.tell(otherwise);
    this.#view.cut();
  }

  close(): void {
    this.#relay.kill('SIGKILL');
    this.#view.close();
    closeSync(this.#log);
  }
}

/** The process of a connection may have ended with it. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has.
  }
}
