import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { startNodeProgram, until } from './host.ts';
import type { Lab, LabPod } from './lab.ts';
import { podObject } from './scene.ts';

/** Namespace of objects that no step changes and no policy of a step selects: traffic along streams must continue. */
export const streamNamespace = 'streams';
const readyWithinMs = 300_000;

/** Path from the client to this address: one UDP stream, one of new connections, one of messages on an established connection. */
export interface StreamTarget {
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

export interface StreamPlan {
  readonly hertz: number;
  readonly ways: readonly StreamTarget[];
}

/** Waits until all streams have an answer to something sent since a moment (ms of the monotonic clock). */
export interface StreamQuery {
  readonly sinceMs: number;
  readonly withinMs: number;
}

export interface StreamReport {
  /** Streams without an answer. */
  readonly silent: readonly string[];
  /** Streams whose connection ended since the last question. */
  readonly broken: readonly string[];
  /** Losses found since the last question. */
  readonly lost: readonly { readonly stream: string; readonly atMs: number }[];
}

/** A client cannot use one source port for an endpoint both directly and through its Service, so each has its own. */
const ports = { direct: 7_777, service: 7_778, sticky: 7_779 } as const;

/** Monotonic clock of all processes of the host (ms). */
export const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/**
 * Traffic that continues while faults are injected into a node: from a pod of the tested node to a neighbour, to a pod of the other node,
 * to a Service of both and to one with affinity, in both families.
 */
export class TrafficStreams {
  readonly #processes: readonly ChildProcess[];
  readonly #answers: Interface;
  readonly #client: ChildProcess;
  readonly #log: number;
  /** Rejects the question that waits for its answer. */
  #fails: (reason: Error) => void = () => {};

  private constructor(servers: readonly ChildProcess[], client: ChildProcess, log: number) {
    if (client.stdout === null) throw new Error('the streams’ client has no output');
    this.#processes = [...servers, client];
    this.#client = client;
    this.#answers = createInterface({ input: client.stdout });
    this.#answers.once('close', () => this.#fails(new Error('the streams’ client ended')));
    this.#log = log;
  }

  static async open(lab: Lab, mark: Readonly<Record<string, string>>, hertz: number): Promise<TrafficStreams> {
    const log = openSync(join(lab.dir, 'streams.log'), 'a');
    const started: ChildProcess[] = [];
    try {
      const { client, near, far, services } = await places(lab);
      const listening = ({ ips }: LabPod): string[] => ips.flatMap((ip) => Object.values(ports).flatMap((port) => [ip, String(port)]));
      for (const pod of [near, far]) started.push(startNodeProgram(pod.netns, 'stream-server.ts', listening(pod), log, mark));
      await Promise.all(started.map(untilReady));
      const to = (name: string, addresses: readonly string[], port: number): StreamTarget[] =>
        addresses.map((address) => ({ name: `${name} ${address.includes(':') ? 'ipv6' : 'ipv4'}`, address, port }));
      const ways = [
        ...to('near', near.ips, ports.direct),
        ...to('far', far.ips, ports.direct),
        ...to('service', services.service, ports.service),
        ...to('sticky', services.sticky, ports.sticky),
      ];
      const streams = new TrafficStreams(
        started,
        startNodeProgram(client.netns, 'stream-client.ts', [JSON.stringify({ hertz, ways })], log, mark),
        log,
      );
      const { silent } = await streams.ask({ sinceMs: monotonicMs(), withinMs: readyWithinMs });
      if (silent.length === 0) return streams;
      streams.close();
      throw new Error(`streams are silent before any fault is injected: ${silent.join()}`);
    } catch (thrown) {
      for (const each of started) each.kill('SIGKILL');
      throw thrown;
    }
  }

  async ask(question: StreamQuery): Promise<StreamReport> {
    const answered = new Promise<string>((resolve, reject) => {
      this.#answers.once('line', resolve);
      this.#fails = reject;
    });
    this.#client.stdin?.write(`${JSON.stringify(question)}\n`);
    return JSON.parse(await answered) as StreamReport;
  }

  close(): void {
    for (const each of this.#processes) each.kill('SIGKILL');
    closeSync(this.#log);
  }
}

function untilReady(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    server.stdout?.once('data', () => resolve());
    server.once('exit', () => reject(new Error('a server of the streams ended')));
  });
}

interface Places {
  readonly client: LabPod;
  readonly near: LabPod;
  readonly far: LabPod;
  /** Addresses by name. */
  readonly services: Readonly<Record<'service' | 'sticky', readonly string[]>>;
}

async function places(lab: Lab): Promise<Places> {
  const { api, tried, other } = lab;
  await lab.createNamespace(streamNamespace);
  const pods = [
    ['client', tried.name],
    ['near', tried.name],
    ['far', other.name],
  ] as const;
  for (const [name, node] of pods) {
    const app = name === 'client' ? 'client' : 'server';
    await api.create(`/api/v1/namespaces/${streamNamespace}/pods`, podObject({ name, namespace: streamNamespace, node, app }));
  }
  const service = await createService(lab, 'service', ports.service, 'None');
  const sticky = await createService(lab, 'sticky', ports.sticky, 'ClientIP');
  let found: readonly LabPod[] = [];
  const named = (name: string): LabPod | undefined => found.find((pod) => pod.namespace === streamNamespace && pod.name === name);
  await until(
    async () => {
      found = (await lab.status()).pods;
      return pods.every(([name]) => (named(name)?.ips.length ?? 0) > 1);
    },
    readyWithinMs,
    () => 'the pods of the streams have no network',
  );
  const [client, near, far] = [named('client'), named('near'), named('far')];
  if (client === undefined || near === undefined || far === undefined) throw new Error('a pod of the streams is gone');
  return { client, near, far, services: { service, sticky } };
}

/** @returns its addresses */
async function createService({ api }: Lab, name: string, port: number, sessionAffinity: 'None' | 'ClientIP'): Promise<string[]> {
  const made = await api.create(`/api/v1/namespaces/${streamNamespace}/services`, {
    metadata: { name, namespace: streamNamespace },
    spec: {
      ipFamilyPolicy: 'PreferDualStack',
      selector: { app: 'server' },
      sessionAffinity,
      ports: ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), protocol, port })),
    },
  });
  return made.spec?.['clusterIPs'] as string[];
}
