import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { AgentStatus } from '../../src/api/status.ts';

/** Behaviour of an agent, or of the API server on the way to it, on a request. */
export interface FakeAgent {
  readonly node: string;
  /** Image of its pod. */
  readonly image?: string;
  /** Name of its pod; absent: one that is made of the node's. */
  readonly pod?: string;
  readonly pool?: string;
  /** True if the node has no agent pod. */
  readonly absent?: boolean;
  /** True for an image without the exec relay: the plugin of releases up to 0.26 prints nothing before its input ends. */
  readonly isOld?: boolean;
  /** Reason why its container waits. */
  readonly waiting?: string;
  /**
   * `answer` is the agent's answer and seinectl's output, with its exit code; `silent` never answers; `cut` breaks off in the middle; `refused` is the API
   * server's
   * 403; `no program` is an image without seinectl; `exit` prints nothing but a message.
   */
  readonly reply: { readonly answer: string; readonly code?: number } | 'silent' | 'cut' | 'refused' | 'no program' | 'exit';
}

export interface FakeFleetOptions {
  readonly agents: readonly FakeAgent[];
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Answers of all agents to some paths, without their query; other paths have the agent's `reply`. */
  readonly paths?: Readonly<Record<string, string>>;
  /** The same for one agent, by `NODE PATH`. */
  readonly pathsOfNode?: Readonly<Record<string, string>>;
  /** Messages of status 503 with which all agents answer some paths, without their query. */
  readonly unavailable?: Readonly<Record<string, string>>;
  /** Recorded answers of agents, before all others. Undefined for a request that was not recorded. */
  readonly recorded?: (node: string, method: string, target: string) => { readonly status: number; readonly body: string } | undefined;
  /** Delay of an agent (ms). */
  readonly delayMs?: number;
  /** True if nodes may not be listed. */
  readonly nodesForbidden?: boolean;
  /** Objects of further lists, by path. */
  readonly objects?: Readonly<Record<string, readonly object[]>>;
  /** Single objects, by path. */
  readonly single?: Readonly<Record<string, object>>;
  /** Objects per page. */
  readonly page?: number;
}

const CHANNEL = { stdout: 1, stderr: 2, status: 3 } as const;

/**
 * The part of an API server that `seinectl cluster` uses: lists of pods and nodes, and exec over WebSocket as in Kubernetes 1.30 and newer.
 */
export class FakeFleet {
  readonly #options: FakeFleetOptions;
  #byPod: ReadonlyMap<string, FakeAgent> = new Map();
  #present: readonly FakeAgent[] = [];
  readonly #server: http.Server;
  readonly #exec = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false });
  /** Executed commands, and the maximum number of concurrent ones. */
  readonly commands: string[][] = [];
  /** Paths that relays requested. */
  readonly requests: string[] = [];
  readonly #agents = http.createServer((request, response) => this.#relayed(request, response));
  atATime = 0;
  #running = 0;

  constructor(options: FakeFleetOptions) {
    this.#options = options;
    this.#setAgents(options.agents);
    const answer = (request: IncomingMessage, response: ServerResponse): void => this.#list(request, response);
    this.#server = options.tls ? https.createServer(options.tls, answer) : http.createServer(answer);
    this.#server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => this.#upgrade(request, socket, head));
  }

  /** @returns the port, on 127.0.0.1 */
  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  /** Replaces the pods of all agents by these, and ends their execs: a rolling update. */
  replaceAgents(agents: readonly FakeAgent[]): void {
    this.#setAgents(agents);
    this.endExecs();
  }

  #setAgents(agents: readonly FakeAgent[]): void {
    this.#present = agents;
    this.#byPod = new Map(agents.map((agent) => [podName(agent), agent]));
  }

  /** Ends all execs, as an API server may at any time. */
  endExecs(): void {
    for (const client of this.#exec.clients) client.terminate();
  }

  async close(): Promise<void> {
    for (const client of this.#exec.clients) client.terminate();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #list(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', 'http://fake');
    if (url.searchParams.get('dryRun') === 'All') {
      // The object as it would be stored: without defaults.
      response.writeHead(200, { 'content-type': 'application/json' });
      request.pipe(response);
      return;
    }
    const from = Number(url.searchParams.get('continue') ?? 0);
    const { nodesForbidden, objects = {}, page = 500 } = this.#options;
    const agents = this.#present;
    const isNodes = url.pathname === '/api/v1/nodes';
    if (isNodes && nodesForbidden) {
      refuse(response, 'nodes is forbidden');
      return;
    }
    // An API group that this server does not have.
    if (url.pathname.startsWith('/apis/policy.networking.k8s.io')) {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found');
      return;
    }
    const known = isNodes ? agents.map(({ node }) => nodeObject(node)) : agents.filter(({ absent }) => !absent).map(podObject);
    const one = this.#options.single?.[url.pathname];
    if (one) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(one));
      return;
    }
    if (/\/(?:pods|networkpolicies)\/[^/]+$/.test(url.pathname)) {
      const body = { kind: 'Status', reason: 'NotFound', message: `${url.pathname} not found`, code: 404 };
      response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return;
    }
    const given = objects[url.pathname];
    const items = given ?? (isNodes || url.pathname === '/api/v1/namespaces/seine-system/pods' ? known : []);
    const rest = items.length > from + page ? { continue: String(from + page) } : {};
    const body = { kind: 'List', apiVersion: 'v1', metadata: { resourceVersion: '1', ...rest }, items: items.slice(from, from + page) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const url = new URL(request.url ?? '', 'http://fake');
    const [, pod = ''] = /\/pods\/([^/]+)\/exec$/.exec(url.pathname) ?? [];
    const agent = this.#byPod.get(pod);
    if (agent === undefined || agent.reply === 'refused') {
      const message = JSON.stringify({
        kind: 'Status',
        reason: 'Forbidden',
        message: `pods "${pod}" is forbidden: User "me" cannot get resource "pods/exec"`,
        code: 403,
      });
      socket.end(`HTTP/1.1 403 Forbidden\r\nContent-Length: ${message.length}\r\nConnection: close\r\n\r\n${message}`);
      return;
    }
    this.commands.push(url.searchParams.getAll('command'));
    this.#running++;
    this.atATime = Math.max(this.atATime, this.#running);
    this.#exec.handleUpgrade(request, socket, head, (client) => {
      client.pause();
      setTimeout(() => {
        this.#running--;
        client.resume();
        if (url.searchParams.getAll('command')[1] === '--join') this.#join(client, agent);
        else answerOn(client, agent);
      }, this.#options.delayMs ?? 0);
    });
  }

  /** The exec relay: HTTP over the streams of the exec. */
  #join(client: WebSocket, agent: FakeAgent): void {
    const send = (channel: number, text: string): void => client.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]));
    // It prints its error once its input ends.
    if (agent.isOld) return;
    if (agent.reply === 'exit') {
      send(CHANNEL.stderr, 'seine: the agent at /run/seine/agent.sock: No such file or directory\n');
      send(CHANNEL.status, exitStatus(1));
      client.close(1000);
    } else if (agent.reply === 'cut' || agent.reply === 'no program') answerOn(client, agent);
    else {
      send(CHANNEL.stdout, 'HTTP/1.1 102 Processing\r\n\r\n');
      this.#agents.emit('connection', Object.assign(relayStream(client), { agent }));
    }
  }

  #relayed(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(request.url ?? '');
    const { reply, node } = (request.socket as unknown as { readonly agent: FakeAgent }).agent; // set in `#join`
    const path = (request.url ?? '').replace(/\?.*/, '');
    const recorded = this.#options.recorded?.(node, request.method ?? 'GET', request.url ?? '/');
    if (recorded) {
      response
        .writeHead(recorded.status, { 'content-type': recorded.status === 200 ? 'application/json' : 'text/plain' })
        .end(recorded.body);
      return;
    }
    const unavailable = this.#options.unavailable?.[path];
    if (unavailable !== undefined) {
      response.writeHead(503, { 'content-type': 'text/plain' }).end(unavailable);
      return;
    }
    const ofPath = this.#options.pathsOfNode?.[`${node} ${path}`] ?? this.#options.paths?.[path];
    if (ofPath !== undefined && typeof reply === 'object') response.writeHead(200, { 'content-type': 'application/json' }).end(ofPath);
    else if (typeof reply === 'object') response.writeHead(200, { 'content-type': 'application/json' }).end(reply.answer);
  }
}

/** Standard streams of the program, seen from it. */
function relayStream(client: WebSocket): Duplex {
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, written) => client.send(Buffer.concat([Buffer.of(CHANNEL.stdout), chunk]), written),
    destroy: (error, destroyed) => {
      client.terminate();
      destroyed(error);
    },
  });
  client.on('message', (data) => stream.push((data as Buffer).subarray(1)));
  client.on('close', () => stream.push(null));
  return Object.assign(stream, { setTimeout: () => stream, setNoDelay: () => stream });
}

function answerOn(client: WebSocket, { reply }: FakeAgent): void {
  const send = (channel: number, text: string): void => client.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]));
  if (reply === 'silent' || reply === 'refused') return;
  if (reply === 'cut') {
    send(CHANNEL.stdout, '{"node":');
    client.terminate();
    return;
  }
  if (reply === 'no program')
    send(CHANNEL.status, JSON.stringify({ status: 'Failure', message: 'exec: "seinectl": not found', reason: 'InternalError' }));
  else {
    const { answer, code = 0 } = reply === 'exit' ? { answer: '', code: 3 } : reply;
    // Chunks end anywhere, also within a character, and channels are in no order with each other.
    send(CHANNEL.status, exitStatus(code));
    if (reply === 'exit') send(CHANNEL.stderr, 'seinectl: no agent answers on /run/seine/agent.sock\n');
    const bytes = Buffer.from(answer);
    const middle = bytes.length >> 1;
    for (const piece of [bytes.subarray(0, middle), bytes.subarray(middle)]) client.send(Buffer.concat([Buffer.of(CHANNEL.stdout), piece]));
  }
  client.close(1000);
}

function exitStatus(code: number): string {
  if (code === 0) return JSON.stringify({ metadata: {}, status: 'Success' });
  const details = { causes: [{ reason: 'ExitCode', message: String(code) }] };
  return JSON.stringify({ status: 'Failure', message: `command terminated with exit code ${code}`, reason: 'NonZeroExitCode', details });
}

function refuse(response: ServerResponse, message: string): void {
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Forbidden', message, code: 403 };
  response.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const podName = ({ node, pod = `seine-agent-of-${node}` }: FakeAgent): string => pod;

function nodeObject(name: string): object {
  return { metadata: { name, labels: { 'kubernetes.io/os': 'linux' } } };
}

function podObject(agent: FakeAgent): object {
  const { node, pool, waiting, image = `seine.invalid/agent:0.${agent.isOld ? 5 : 27}.0` } = agent;
  const state = waiting === undefined ? { running: {} } : { waiting: { reason: waiting } };
  return {
    metadata: {
      name: podName(agent),
      namespace: 'seine-system',
      labels: { 'app.kubernetes.io/name': 'seine-agent', ...(pool === undefined ? {} : { 'seine.dev/pool': pool }) },
    },
    spec: { nodeName: node, containers: [{ name: 'agent', image }] },
    status: {
      phase: 'Running',
      initContainerStatuses: [{ name: 'install-cni', state: { terminated: { reason: 'Completed' } } }],
      containerStatuses: [{ name: 'agent', state }],
    },
  };
}

/** The status of an agent without problems, of about the length for a node with thirty pods. */
export function fakeStatus(node: string, change: Partial<AgentStatus> = {}): string {
  const healthChecks = ['bridge', 'ovsdb', 'links', 'routes', 'firewall', 'settings', 'cni', 'leases'].map((name, at) => ({
    name,
    state: 'fresh',
    ageSeconds: at + 1.5,
    everySeconds: 4,
    roundSeconds: 10,
    tookMs: 1.25,
  }));
  const sources = ['Node', 'Service', 'EndpointSlice', 'Pod', 'NetworkPolicy', 'Namespace'].map((kind) => ({
    kind,
    synced: true,
    state: 'in step',
    doing: 'watch',
    objects: 5_000,
    failures: 0,
    invalid: [],
  }));
  const parts = ['bridge', 'ovsdb', 'links', 'routes', 'firewall', 'settings'].map((part) => ({
    part,
    wanted: 1_000,
    held: 1_000,
    revision: 9,
    realizedRevision: 9,
    drift: 0,
    refused: [],
    contested: 0,
  }));
  const features = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`feature of the data path ${at}`, true]));
  return JSON.stringify(
    {
      node,
      versions: { seine: '0.5.0', node: 'v24.21.0', ovs: '3.1.0' },
      readiness: { state: 'ready' },
      verdict: 'no problems',
      problems: [],
      healthChecks,
      sources,
      parts,
      bridge: { name: 'br-int', dataPath: 'system' },
      dataPath: features,
      networkPolicy: {
        enforcement: 'enforced',
        mode: 'enforce',
        objects: 40,
        selecting: 7,
        isolatedPods: 12,
        closedPods: [],
        suspensions: [],
      },
      ...change,
    },
    undefined,
    2,
  );
}
