import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterIps } from '../../lab/demo/workload.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { echo, UdpStream } from '../support/udp-stream.ts';

const echoPort = 7777;
const withinMs = 15_000 * slowness;
/** Tables with flows for peers, Services and pods, which a packet needs after `classify`, table 0. */
const behind = [8, 26, 56, 72, 104];

/** Tables of the flows that are added to a bridge, in their order. */
class Additions {
  readonly #process;
  #text = '';

  private constructor(lab: ConvergeLab, number: number) {
    const { netns, name } = lab.node(number);
    const { command, args } = inNetns(netns, 'ovs-ofctl', ['monitor', 'br-int', 'watch:!delete,!modify']);
    this.#process = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, OVS_RUNDIR: nodePaths(lab.plan.dir, name).dir },
    });
    for (const stream of [this.#process.stdout, this.#process.stderr])
      stream.setEncoding('utf8').on('data', (text) => (this.#text += text));
  }

  /** Starts now: existing flows are reported first. */
  static async begin(lab: ConvergeLab, number: number): Promise<Additions> {
    const there = (await lab.flows(number)).length;
    const additions = new Additions(lab, number);
    await expect.poll(() => additions.tables.length, { timeout: withinMs }).toBeGreaterThanOrEqual(there);
    additions.#text = '';
    return additions;
  }

  get tables(): readonly number[] {
    return [...this.#text.matchAll(/event=ADDED table=(\d+)/g)].map(([, table]) => Number(table));
  }

  close(): void {
    this.#process.kill();
  }
}

/** Decision 64. */
describe('a bridge emptied by another process', () => {
  let lab: ConvergeLab;
  let serviceIps: readonly string[];
  const closing: (() => void)[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'echo' },
      spec: {
        selector: { app: 'web' },
        ports: [{ name: 'echo', port: echoPort, targetPort: echoPort, protocol: 'UDP' }],
        ipFamilyPolicy: 'RequireDualStack',
        ipFamilies: ['IPv4', 'IPv6'],
      },
    };
    await lab.startPods([{ collection: '/api/v1/namespaces/demo/services', object: service }]);
    serviceIps = await clusterIps(lab.api, 'echo', AbortSignal.timeout(withinMs));
    for (const name of ['web-1', 'web-2']) {
      const { netns, ips } = lab.pod(name);
      for (const ip of ips) closing.push(await echo(netns, ip, echoPort));
    }
  });
  afterAll(async () => {
    for (const close of closing) close();
    await lab?.remove();
  });

  /** Eight clients of the Service, which have endpoints of both nodes. */
  async function streams(): Promise<readonly UdpStream[]> {
    const { netns } = lab.pod('client-1');
    const all = [...serviceIps, ...serviceIps, ...serviceIps, ...serviceIps];
    const started = await Promise.all(all.map((ip) => UdpStream.start(netns, ip, echoPort)));
    await expect.poll(() => started.filter(({ answered }) => answered < 20).length, { timeout: withinMs }).toBe(0);
    return started;
  }

  const heldIn = (tables: readonly number[]): number => tables.filter((table) => behind.includes(table)).length;
  const tableOf = (text: string): number => Number(/table=(\d+)/.exec(text)?.[1] ?? 0);

  for (const agent of ['runs', 'starts'] as const) {
    it(`gets its entry flows last while the agent ${agent}, and clients of Services are answered again`, async () => {
      const running = await streams();
      const held = heldIn((await lab.flows(1)).map(({ text }) => tableOf(text)));
      if (agent === 'starts') await lab.agent(1, 'kill');
      const additions = await Additions.begin(lab, 1);
      try {
        await lab.exec(1, 'ovs-ofctl', 'del-flows', 'br-int');
        if (agent === 'starts') await lab.agent(1, 'start');
        await expect.poll(() => additions.tables.filter((table) => table === 0).length, { timeout: withinMs }).toBeGreaterThan(5);
        await lab.untilReady(1);
        expect(heldIn(additions.tables.slice(0, additions.tables.indexOf(0)))).toBe(held);
        const before = running.map(({ answered }) => answered);
        await expect
          .poll(() => running.filter((each, index) => each.answered < (before[index] ?? 0) + 20).length, { timeout: withinMs })
          .toBe(0);
      } finally {
        additions.close();
        await Promise.all(running.map((each) => each.stop()));
      }
    });
  }
});
