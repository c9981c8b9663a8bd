import { expect } from 'vitest';
import { ask, type Outcome, type Probe } from '../../lab/probe/probe.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import type { Random } from '../chaos/random.ts';
import { families, type KubeService, type ServiceLab } from './service-lab.ts';
import { slowness } from './test-datapath.ts';

/** A connection of the mix, as its client has seen it. */
export interface MixedConnection {
  readonly from: string;
  /** Pod that answered; for a denied connection the one that was asked. */
  readonly to: string;
  readonly protocol: string;
  readonly service: string | undefined;
  readonly isDenied: boolean;
  /** Port of the client; unknown for a denied connection. */
  readonly sourcePort?: number;
}

const firstPort = 10_000;
const deniedMs = 300;
const answeredMs = 10_000 * slowness;

/**
 * Connections of a seeded mix from the clients of a lab: to a Service, to pods, and to pods that a policy denies; over TCP and UDP in both
 * families.
 */
export class ConnectionMix {
  readonly #lab: ServiceLab;
  readonly #service: KubeService;
  readonly #random: Random;
  readonly #clients: readonly string[];
  readonly #webs: readonly string[];
  #lastPort = firstPort;

  /** @param service a Service of the pods `web-*`; a policy denies what is sent to the pods `client-*`, by others or by `web-*` */
  constructor(lab: ServiceLab, service: KubeService, random: Random, nodes: readonly number[] = [1, 2]) {
    this.#lab = lab;
    this.#clients = nodes.map((number) => `client-${number}`);
    this.#webs = nodes.map((number) => `web-${number}`);
    this.#service = service;
    this.#random = random;
  }

  /** Opens a number of connections. @returns those of which it is known what became of them */
  async open(total: number, concurrent: number): Promise<readonly MixedConnection[]> {
    const opened: MixedConnection[] = [];
    for (let begun = 0; begun < total; begun += concurrent) {
      const some = await Promise.all(Array.from({ length: Math.min(concurrent, total - begun) }, () => this.#openOne()));
      opened.push(...some.flatMap((each) => each ?? []));
    }
    return opened;
  }

  async #openOne(): Promise<MixedConnection | undefined> {
    const family = this.#random.pick(families);
    const protocol = this.#random.pick(['tcp', 'udp'] as const);
    const kind = this.#random.pick(['service', 'service', 'pod', 'denied'] as const);
    const isDenied = kind === 'denied';
    const from = this.#random.pick(isDenied && this.#clients.length === 1 ? this.#webs : this.#clients);
    const to = this.#random.pick(isDenied ? this.#clients.filter((name) => name !== from) : this.#webs);
    const { metadata, spec } = this.#service;
    const clusterIp = spec.clusterIPs?.find((ip) => ip.includes(':') === (family === 'ipv6'));
    const address = kind === 'service' ? (clusterIp ?? '') : this.#lab.ip(to, family);
    const probe = { from: this.#lab.place(from), protocol, address, port: 80, timeoutMs: kind === 'denied' ? deniedMs : answeredMs };
    const result = protocol === 'tcp' ? await ask(probe) : await this.#askFromOwnPort(probe);
    const shared = { from, protocol: protocol.toUpperCase(), service: kind === 'service' ? `demo/${metadata.name}` : undefined };
    if (kind === 'denied') {
      expect(result.is).toBe('TIMEOUT');
      return { ...shared, to, isDenied: true };
    }
    if (result.is !== 'OK') return undefined;
    const { pod, client } = result.answer;
    return { ...shared, to: pod.replace('demo/', ''), isDenied: false, sourcePort: Number(/\d+$/.exec(client)?.[0]) };
  }

  /** Asks over UDP from a port that no other connection of the mix has: one with the ports of another is the same connection. */
  async #askFromOwnPort({ from, address, port, timeoutMs }: Probe): Promise<Answered> {
    const socket = await bindUdpIn(from, address.includes(':') ? '::' : '0.0.0.0', ++this.#lastPort);
    try {
      const answered = new Promise<string>((resolve) => socket.once('message', (message) => resolve(message.toString())));
      socket.on('error', () => undefined); // refused, or not reached: there is no answer
      const send = () => socket.send('who\n', port, address);
      send();
      const again = setInterval(send, 500);
      const ended = AbortSignal.timeout(timeoutMs);
      const nothing = new Promise<undefined>((resolve) => ended.addEventListener('abort', () => resolve(undefined)));
      const text = await Promise.race([answered, nothing]).finally(() => clearInterval(again));
      if (text === undefined) return { is: 'TIMEOUT' };
      return { is: 'OK', answer: JSON.parse(text) as { readonly pod: string; readonly client: string } };
    } finally {
      socket.close();
    }
  }
}

type Answered =
  | { readonly is: 'OK'; readonly answer: { readonly pod: string; readonly client: string } }
  | { readonly is: Exclude<Outcome['is'], 'OK'> };
