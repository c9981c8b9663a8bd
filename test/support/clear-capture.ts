import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { inNetns } from '../../lab/machine/netns.ts';
import type { LabPlan } from '../../lab/plan/plan.ts';

/** Link of each node to the others. */
const link = 'eth0';
const shownMax = 10;

/**
 * Capture of all packets between nodes that are not encrypted: those with addresses of pods, and those of the tunnel. On each node's link,
 * so that a packet is seen even if no node receives it.
 */
export class ClearCapture {
  readonly #processes: ChildProcess[] = [];
  readonly #lines: string[] = [];
  #count = 0;

  static async start(plan: LabPlan): Promise<ClearCapture> {
    const capture = new ClearCapture();
    await Promise.all(plan.nodes.map(({ netns }) => capture.#listen(netns, plan.podCidrs)));
    return capture;
  }

  /** Number of packets so far, and the first of them as text. */
  get seen(): { readonly count: number; readonly first: readonly string[] } {
    return { count: this.#count, first: this.#lines };
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#processes.map(async (process) => {
        const ended = once(process, 'exit');
        if (process.kill('SIGINT')) await ended;
      }),
    );
  }

  async #listen(netns: string, podCidrs: readonly string[]): Promise<void> {
    const clear = ['udp port 6081', ...podCidrs.map((cidr) => `net ${cidr}`)].join(' or ');
    const { command, args } = inNetns(netns, 'tcpdump', ['-i', link, '-n', '-l', '--immediate-mode', '-p', clear]);
    const process = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#processes.push(process);
    process.stdout.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text.split('\n').filter(Boolean)) {
        this.#count++;
        if (this.#lines.length < shownMax) this.#lines.push(line);
      }
    });
    await new Promise<void>((resolve, reject) => {
      let output = '';
      process.stderr.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (output.includes('listening on')) resolve();
      });
      process.once('exit', () => reject(new Error(`tcpdump: ${output}`)));
    });
  }
}
