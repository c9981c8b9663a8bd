import { type Route, servicePort, Traffic, type TrafficCount } from '../reliability/traffic.ts';
import { until } from '../support/converge-lab.ts';
import { print, type RealCluster } from './cluster.ts';
import { type DeniedCount, DeniedTraffic, type DeniedWay, deniedPort, type Place } from './denied-traffic.ts';
import { pod, service } from './objects.ts';

/** New connections cost this process most, so there are fewer. */
const rates = { messages: 100, connects: 10 };
const deniedHertz = 20;
const nodePort = 30_778;
const readyWithinS = 180;
const patienceMs = 120_000;

/** Losses of allowed traffic, and passed packets of denied traffic. */
export interface PolicedCount {
  readonly allowed: TrafficCount;
  readonly denied: DeniedCount;
}

/** Datagrams, connections and messages without an answer, by stream; connections that ended. */
export function losses({ allowed: { streams, broken } }: PolicedCount): readonly string[] {
  const losing = streams
    .filter(({ lost }) => lost > 0)
    .map(({ name, lost, sent, gapMs }) => `${name}: ${lost} of ${sent}, for ${gapMs} ms`);
  return broken > 0 ? [...losing, `${broken} connections ended`] : losing;
}

/**
 * Traffic on all paths between pods of two nodes, their Services and external clients, with policies in force that allow it, and denied
 * traffic alongside: denied by the ingress at servers of both nodes, directly and through the Service, and by its sender's egress.
 */
export class PolicedTraffic {
  readonly #cluster: RealCluster;
  #servers: readonly Place[] = [];
  #others: readonly Place[] = [];
  #routes: readonly Route[] = [];
  #denied: readonly DeniedWay[] = [];

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
  }

  /** Number of established translated connections: one for each address of a Service, and each path to its node port. */
  get streamsByService(): number {
    return this.#routes.filter(({ service: isService }) => isService).flatMap(({ addresses }) => addresses).length;
  }

  /** Starts the pods, without policies. */
  async prepare(): Promise<void> {
    const [first = '', second = ''] = this.#cluster.nodes;
    const ports = [servicePort, deniedPort].flatMap((port) =>
      ['TCP', 'UDP'].map((protocol) => ({
        name: `${protocol.toLowerCase()}-${port}`,
        protocol,
        port,
        ...(port === servicePort && { nodePort }),
      })),
    );
    await this.#cluster.apply([
      pod({ name: 'client', app: 'client', nodeName: first }),
      pod({ name: 'stranger', app: 'stranger', nodeName: first }),
      pod({ name: 'near', app: 'echo', nodeName: first }),
      pod({ name: 'far', app: 'echo', nodeName: second }),
      pod({ name: 'other', app: 'other', nodeName: second }),
      service('echo', 'echo', ports, 'NodePort'),
    ]);
    const names = ['client', 'stranger', 'near', 'far', 'other'] as const;
    await this.#cluster.wait(readyWithinS, '--for=condition=Ready', ...names.map((name) => `pod/${name}`));
    await this.#findWays();
  }

  async #findWays(): Promise<void> {
    const { nodes, external } = this.#cluster.plan;
    const [node] = nodes;
    if (node === undefined) throw new Error('a cluster without nodes');
    const place = async (name: string) => await this.#cluster.pod(name);
    const [client, outsider] = [await place('client'), await place('stranger')];
    const [near, far, other] = [await place('near'), await place('far'), await place('other')];
    const said = await this.#cluster.kubectl('get', 'service', 'echo', '-o', 'jsonpath={.spec.clusterIPs[*]}');
    const clusterIps = said.trim().split(' ');
    const outside = { netns: external.netns, ips: external.outside };
    this.#servers = [near, far, outside];
    this.#others = [near, far, other];
    this.#routes = [
      { name: 'same node', from: client, addresses: near.ips, service: false },
      { name: 'other node', from: client, addresses: far.ips, service: false },
      { name: 'Service', from: client, addresses: clusterIps, service: true },
      { name: 'node port', from: external, addresses: node.ips, service: true, port: nodePort },
      { name: 'external', from: client, addresses: outside.ips, service: false },
    ];
    this.#denied = [
      { name: 'stranger to same node', from: outsider, addresses: near.ips },
      { name: 'stranger to other node', from: outsider, addresses: far.ips },
      { name: 'stranger to Service', from: outsider, addresses: clusterIps },
      { name: 'client to what its egress denies', from: client, addresses: other.ips },
    ];
  }

  /** Checks that traffic to be denied passes without policies, puts them in force, and waits until none of it passes. */
  async police(): Promise<void> {
    const wanted = this.#denied.flatMap(({ name, addresses }) =>
      addresses.map((address) => `${name} ${address.includes(':') ? 'ipv6' : 'ipv4'}`),
    );
    const traffic = await DeniedTraffic.start(this.#others, this.#denied, deniedHertz);
    try {
      const all = wanted.flatMap((way) => [`tcp ${way}`, `udp ${way}`]).toSorted();
      const missing = () => all.filter((way) => !traffic.arrived.includes(way));
      await until(
        () => missing().length === 0,
        patienceMs,
        () => `nothing denies them, and yet nothing came: ${missing().join(', ')}`,
      );
    } finally {
      await traffic.stop();
    }
    await this.#cluster.apply(await this.#policies());
    const silent = async () => Object.keys((await this.#denial(1_000)).arrived).length === 0;
    await until(silent, patienceMs, () => 'the policies deny nothing');
    print('what policies deny passed before, and does not now');
  }

  async #denial(forMs: number): Promise<DeniedCount> {
    const traffic = await DeniedTraffic.start(this.#others, this.#denied, deniedHertz);
    await new Promise((resolve) => setTimeout(resolve, forMs));
    return await traffic.stop();
  }

  /** The servers admit the client and everything except the stranger; the client may reach the servers and external addresses. */
  async #policies(): Promise<readonly object[]> {
    const outsider = (await this.#cluster.pod('stranger')).ips;
    const blocks = outsider.map((ip) => {
      const [cidr, length] = ip.includes(':') ? ['::/0', 128] : ['0.0.0.0/0', 32];
      return { ipBlock: { cidr, except: [`${ip}/${length}`] } };
    });
    const external = this.#cluster.plan.external.outside.map((ip) => ({ ipBlock: { cidr: `${ip}/${ip.includes(':') ? 128 : 32}` } }));
    const of = (app: string) => ({ podSelector: { matchLabels: { app } } });
    const policy = (name: string, spec: object) => ({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name },
      spec,
    });
    return [
      policy('echo', { ...of('echo'), policyTypes: ['Ingress'], ingress: [{ from: [of('client'), ...blocks] }] }),
      policy('client', { ...of('client'), policyTypes: ['Egress'], egress: [{ to: [of('echo'), ...external] }] }),
    ];
  }

  /** Changes something under traffic, until every stream has answers again. @param change resolves when it is done */
  async during(name: string, change: () => Promise<void>): Promise<PolicedCount> {
    const traffic = await Traffic.start(this.#servers, this.#routes, rates);
    const denied = await DeniedTraffic.start(this.#others, this.#denied, deniedHertz);
    let counted: PolicedCount | undefined;
    const answered = async (sinceMs: number) =>
      await until(
        () => traffic.silentSince(sinceMs).length === 0,
        patienceMs,
        () => `${name}: no answers on ${traffic.silentSince(sinceMs).join(', ')}`,
      );
    try {
      await answered(performance.now());
      await change();
      await answered(performance.now());
    } finally {
      counted = { allowed: await traffic.stop(), denied: await denied.stop() };
    }
    report(name, counted);
    return counted;
  }
}

function report(name: string, counted: PolicedCount): void {
  const { allowed, denied } = counted;
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const kinds = (['udp', 'connect', 'talk'] as const).map((kind) => {
    const streams = allowed.streams.filter((stream) => stream.kind === kind);
    const most = Math.max(0, ...streams.map(({ gapMs }) => gapMs));
    return `${kind} ${sum(streams.map(({ lost }) => lost))} of ${sum(streams.map(({ sent }) => sent))} lost, longest gap ${most} ms`;
  });
  const passed = sum(Object.values(denied.arrived));
  print(`${name}: ${kinds.join('; ')}; ${allowed.broken} connections ended; of ${denied.sent} denied ${passed} passed`);
  for (const each of losses(counted)) print(`  ${each}`);
}
