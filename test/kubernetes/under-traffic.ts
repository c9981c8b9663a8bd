import { type Route, servicePort, Traffic, type TrafficCount } from '../reliability/traffic.ts';
import { until } from '../support/converge-lab.ts';
import { print, type RealCluster } from './cluster.ts';
import { pod, service } from './objects.ts';

const hertz = 10;
const backWithinMs = 120_000;
const readyWithinS = 180;

/** Losses by one fault, in the form of the tables of docs/records/faults.md. */
export interface Cost {
  readonly udpLost: number;
  readonly udpSent: number;
  readonly udpLostOnNode: number;
  readonly gapMs: number;
  readonly connectsFailed: number;
  readonly connects: number;
  readonly stallMs: number;
  readonly broken: number;
}

/** Node port of the tested Service. */
const nodePort = 30_778;

/**
 * Traffic from a pod of the first node to pods of the first and the second, and to a Service of both; or to that Service by all its paths.
 */
export class TrafficCourse {
  readonly #cluster: RealCluster;
  #routes: readonly Route[] = [];

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
  }

  async prepare(): Promise<void> {
    const addresses = await this.#serve();
    const from = await this.#cluster.pod('client');
    const direct = await Promise.all(
      ['near', 'far'].map(async (name) => ({ name, from, addresses: (await this.#cluster.pod(name)).ips, service: false })),
    );
    this.#routes = [...direct, { name: 'Service', from, addresses, service: true }];
  }

  /** From outside to a node port of the first node, and from a pod and the node itself to the cluster's addresses. */
  async prepareServiceAlone(): Promise<void> {
    const addresses = await this.#serve(nodePort);
    const { nodes, external } = this.#cluster.plan;
    const [node] = nodes;
    if (node === undefined) throw new Error('a cluster without nodes');
    this.#routes = [
      { name: 'node port', from: external, addresses: node.ips, service: true, port: nodePort },
      { name: 'pod', from: await this.#cluster.pod('client'), addresses, service: true },
      { name: 'node', from: node, addresses, service: true },
    ];
  }

  /** @returns the addresses of the Service */
  async #serve(wantedNodePort?: number): Promise<readonly string[]> {
    const [first = '', second = ''] = this.#cluster.nodes;
    const same = { port: servicePort, ...(wantedNodePort !== undefined && { nodePort: wantedNodePort }) };
    const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), protocol, ...same }));
    await this.#cluster.apply([
      pod({ name: 'client', app: 'client', nodeName: first }),
      pod({ name: 'near', app: 'echo', nodeName: first }),
      pod({ name: 'far', app: 'echo', nodeName: second }),
      service('echo', 'echo', ports, wantedNodePort === undefined ? 'ClusterIP' : 'NodePort'),
    ]);
    await this.#cluster.wait(readyWithinS, '--for=condition=Ready', 'pod/client', 'pod/near', 'pod/far');
    const addresses = await this.#cluster.kubectl('get', 'service', 'echo', '-o', 'jsonpath={.spec.clusterIPs[*]}');
    return addresses.trim().split(' ');
  }

  /** Injects a fault under traffic, and counts losses until everything is as before. @param fault resolves when it is repaired */
  async during(name: string, fault: () => Promise<void>): Promise<Cost> {
    const servers = await Promise.all(['near', 'far'].map((server) => this.#cluster.pod(server)));
    const traffic = await Traffic.start(servers, this.#routes, hertz);
    let counted: TrafficCount | undefined;
    try {
      await fault();
      const repairedMs = performance.now();
      const back = () => traffic.backAfter(repairedMs) !== undefined;
      await until(back, backWithinMs, () => `after ${name}: no answers on ${traffic.silentSince(repairedMs).join(', ')}`);
    } finally {
      counted = await traffic.stop();
    }
    const cost = costOf(counted);
    print(
      `${name}: ${cost.udpLost} of ${cost.udpSent} datagrams lost (${cost.udpLostOnNode} on the node), longest gap ${cost.gapMs} ms; ` +
        `${cost.connectsFailed} of ${cost.connects} connects failed; longest stall ${cost.stallMs} ms; ${cost.broken} connections broken`,
    );
    return cost;
  }
}

function costOf({ streams, broken }: TrafficCount): Cost {
  const of = (kind: string) => streams.filter((stream) => stream.kind === kind);
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const most = (numbers: readonly number[]) => Math.round(Math.max(0, ...numbers));
  const [udp, connect, talk] = [of('udp'), of('connect'), of('talk')];
  return {
    udpLost: sum(udp.map(({ lost }) => lost)),
    udpSent: sum(udp.map(({ sent }) => sent)),
    udpLostOnNode: sum(udp.filter(({ name }) => name.includes('near')).map(({ lost }) => lost)),
    gapMs: most(udp.map(({ gapMs }) => gapMs)),
    connectsFailed: sum(connect.map(({ lost }) => lost)),
    connects: sum(connect.map(({ sent }) => sent)),
    stallMs: most(talk.map(({ slowestMs }) => slowestMs)),
    broken,
  };
}
