import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { AgentStatus } from '../../src/api/status.ts';
import { run } from '../../src/seinectl/program.ts';
import { recordingTerminal } from './recording-terminal.ts';

/** Status of a node without problems. */
export const wellStatus: AgentStatus = {
  node: 'node-1',
  versions: { seine: '0.1.0', node: 'v24', ovs: '3.1.0' },
  pid: 7,
  startedAt: '2026-01-01T00:00:00.000Z',
  uptimeSeconds: 61,
  readiness: { state: 'ready' },
  bridge: { name: 'br-int', dataPath: 'system' },
  network: {
    mode: 'encap',
    tunnel: 'geneve',
    transport: ['192.0.2.1'],
    podCidrs: ['10.10.0.0/22'],
    serviceCidrs: ['10.96.0.0/12'],
    gateway: 'antrea-gw0',
    mtu: 1450,
    snat: true,
  },
  pods: { attached: 1, pools: [{ cidr: '10.10.0.0/22', size: 1_021, allocated: 1, quarantined: 2 }] },
  peers: 2,
  services: 3,
  proxy: { proxyAll: 'on' },
  networkPolicy: { enforcement: 'enforced', objects: 3, selecting: 2, isolatedPods: 4, closedPods: [], shortages: [] },
  objections: { count: 0, first: [] },
  sources: [{ kind: 'Node', synced: true, state: 'in step', doing: 'watch', objects: 3, failures: 0, invalid: [] }],
  connections: [{ name: 'ovsdb', up: true, connects: 1, counters: { transactions: 3 } }],
  parts: [{ part: 'bridge', wanted: 160, held: 160, revision: 4, realizedRevision: 4, drift: 0, refused: [], contested: 0 }],
  eventLoop: { lagMsMax: 3 },
};

/** An agent with scripted answers, by path, and a `seinectl` that requests them. Rejects other paths; an `Error` is the agent's own. */
export class AnsweringAgent {
  /** Folder of its socket. */
  readonly folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  readonly answers: Record<string, unknown>;
  /** Requested paths with their queries, and the method unless it is `GET`. */
  readonly asked: string[] = [];
  readonly #server = createServer((request, response) => {
    this.asked.push(request.method === 'GET' ? (request.url ?? '') : `${request.method} ${request.url}`);
    const answer = this.answers[request.url?.split('?')[0] ?? ''];
    response.writeHead(answer === undefined ? 404 : answer instanceof Error ? 503 : 200);
    response.end(answer instanceof Error ? `[UNAVAILABLE] ${answer.message}\n` : JSON.stringify(answer ?? 'nothing'));
  });

  static async start(answers: Readonly<Record<string, unknown>>): Promise<AnsweringAgent> {
    const agent = new AnsweringAgent(answers);
    await new Promise<void>((resolve) => agent.#server.listen(agent.#socket, resolve));
    return agent;
  }

  private constructor(answers: Readonly<Record<string, unknown>>) {
    this.answers = { ...answers };
  }

  get #socket(): string {
    return join(this.folder, 'agent.sock');
  }

  /** @param socket of another agent */
  async seinectl(args: readonly string[], { stdin = '', socket = this.#socket } = {}) {
    const { terminal, out, err } = recordingTerminal();
    const code = await run(['--socket', socket, ...args], terminal, Readable.from([stdin]));
    return { code, out: out.join('\n'), err: err.join('\n') };
  }

  async end(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
