import { get } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, vi } from 'vitest';
import { askControl } from '../../lab/daemon/control.ts';
import { inParallel } from '../../lab/demo/scene.ts';
import type { DemoManifest } from '../../lab/demo/workload.ts';
import { podsReady } from '../../lab/demo/workload.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { labPaths, type NetnsRef, nodePaths } from '../../lab/plan/names.ts';
import type { LabOptions } from '../../lab/plan/plan.ts';
import { ask, type Outcome } from '../../lab/probe/probe.ts';
import { connectTcpIn } from '../../lab/probe/sockets.ts';
import { askStatus } from '../../lab/up.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { ConvergeLab } from './converge-lab.ts';
import { slowness } from './test-datapath.ts';

/** Maximum time in which an agent follows a change of the cluster; a fraction of this on an idle host. */
const followMs = 8_000 * slowness;
const followPollMs = 60;
const answerTimeoutMs = 900;
const patience = () => AbortSignal.timeout(30_000 * slowness);

export const families: readonly Family[] = ['ipv4', 'ipv6'];
export const protocols = ['tcp', 'udp'] as const;
export type Protocol = (typeof protocols)[number];

const inDemo = '/api/v1/namespaces/demo';
const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices';

export interface KubeService {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: {
    readonly clusterIPs?: readonly string[];
    readonly ports: readonly { readonly name?: string; readonly port: number; readonly nodePort?: number; readonly protocol: string }[];
    readonly healthCheckNodePort?: number;
    readonly type: string;
  };
}

/** A handmade endpoint: a pod of the lab, or an address, and its conditions. */
export interface HandMade {
  readonly pod?: string;
  readonly address?: Readonly<Partial<Record<Family, string>>>;
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly zone?: string;
  readonly hints?: object;
}

export interface Aim {
  readonly from: string;
  readonly address: string;
  readonly port: number;
  readonly protocol?: Protocol;
  /** Number of tries. */
  readonly tries?: number;
  readonly timeoutMs?: number;
}

/** Expects no answer: an unanswered try ends only by its deadline. */
export const silent = { tries: 2, timeoutMs: 300 } as const;

/** Results of a number of tries, each once and in order. */
export interface Seen {
  /** Names of the pods that answered. */
  readonly pods: readonly string[];
  /** `REFUSED`, `TIMEOUT` or the errno, of unanswered tries. */
  readonly failures: readonly string[];
  /** Client addresses seen by the servers. */
  readonly clients: readonly string[];
}

/** A lab of three nodes with the pods of the demo, for tests of Services: request, answering endpoint, source that it sees. */
export class ServiceLab {
  readonly lab: ConvergeLab;
  readonly #names = new Map<string, number>();

  private constructor(lab: ConvergeLab) {
    this.lab = lab;
  }

  /** @param agent script that node runs as the agent; from the sources if absent */
  static async start(more: readonly DemoManifest[] = [], options: Partial<LabOptions> = {}, agent?: string): Promise<ServiceLab> {
    const lab = await ConvergeLab.start(3, agent, options);
    await lab.startPods(more);
    return new ServiceLab(lab);
  }

  async remove(): Promise<void> {
    await this.lab.remove();
  }

  async apiServer(verb: 'start' | 'stop'): Promise<void> {
    await askControl(labPaths(this.lab.plan.dir).control, 'POST', `/apiserver/${verb}`);
  }

  /** A pod, a node or `external`. */
  place(who: string): NetnsRef {
    if (who === 'external') return this.lab.plan.external.netns;
    return this.lab.plan.nodes.find(({ name }) => name === who)?.netns ?? this.lab.pod(who).netns;
  }

  /** Address of a pod, a node, or the outside as nodes see it. */
  ip(who: string, family: Family): string {
    const node = this.lab.plan.nodes.find(({ name }) => name === who);
    return ofFamily(who === 'external' ? this.lab.plan.external.ips : (node ?? this.lab.pod(who)).ips, family);
  }

  /** A unique name of a Service in this lab and the demo. */
  name(prefix: string): string {
    const count = (this.#names.get(prefix) ?? 0) + 1;
    this.#names.set(prefix, count);
    return `${prefix}-${count}`;
  }

  /** A dual-stack Service of TCP and UDP port 80, unless `spec` changes it. */
  async service(name: string, spec: object, metadata: object = {}): Promise<KubeService> {
    const ports = protocols.map((protocol) => ({ name: protocol, port: 80, protocol: protocol.toUpperCase() }));
    const body = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, ...metadata },
      spec: { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'], ports, ...spec },
    };
    return (await this.lab.api.send({ method: 'POST', path: `${inDemo}/services`, body }, patience())) as KubeService;
  }

  /** A merge patch. */
  async change(name: string, patch: object, subresource = ''): Promise<KubeService> {
    const path = `${inDemo}/services/${name}${subresource}`;
    const contentType = 'application/merge-patch+json';
    return (await this.lab.api.send({ method: 'PATCH', path, body: patch, contentType }, patience())) as KubeService;
  }

  /** The node's only taint, or none. */
  async taint(node: string, key: string | undefined): Promise<void> {
    const body = { spec: { taints: key === undefined ? null : [{ key, effect: 'NoSchedule' }] } };
    await this.lab.api.send(
      { method: 'PATCH', path: `/api/v1/nodes/${node}`, body, contentType: 'application/merge-patch+json' },
      patience(),
    );
  }

  async delete(kind: 'services' | 'pods', name: string, body?: object): Promise<void> {
    await this.lab.api.send({ method: 'DELETE', path: `${inDemo}/${kind}/${name}`, ...(body && { body }) }, patience());
  }

  /** Starts one more pod; `manifest` is of `pod` below. */
  async start(manifest: DemoManifest): Promise<void> {
    await this.lab.api.send({ method: 'POST', path: manifest.collection, body: manifest.object }, patience());
    await this.settlePods();
  }

  /** Waits for every pod to be ready, and reads their nodes. */
  async settlePods(): Promise<void> {
    await podsReady(this.lab.api, 1, patience());
    this.lab.pods = (await askStatus(this.lab.plan.dir)).pods;
  }

  /**
   * Writes the slices of a Service without selector, one per family; earlier ones of that suffix are replaced.
   *
   * @param port of the pods, under the names and protocols of the default ports of `service`
   */
  async endpoints(service: string, wanted: readonly HandMade[], { port = 80, suffix = '' } = {}): Promise<void> {
    for (const family of families) {
      const name = `${service}-${family}${suffix}`;
      const body = {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { name, labels: { 'kubernetes.io/service-name': service } },
        addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
        ports: protocols.map((protocol) => ({ name: protocol, port, protocol: protocol.toUpperCase() })),
        endpoints: wanted.flatMap((one) => this.#endpoint(one, family)),
      };
      await this.lab.api
        .send({ method: 'POST', path: slicesPath, body }, patience())
        .catch(() => this.lab.api.send({ method: 'PUT', path: `${slicesPath}/${name}`, body }, patience()));
    }
  }

  #endpoint({ pod, address, zone, hints, ready = true, serving = ready, terminating = false }: HandMade, family: Family): object[] {
    const ip = address === undefined ? this.ip(pod ?? '', family) : address[family];
    const nodeName = pod === undefined ? undefined : this.lab.pod(pod).node;
    if (ip === undefined) return [];
    return [
      {
        addresses: [ip],
        conditions: { ready, serving, terminating },
        ...(nodeName && { nodeName }),
        ...(zone && { zone }),
        ...(hints && { hints }),
      },
    ];
  }

  async look({ from, address, port, protocol = 'tcp', tries = 6, timeoutMs = answerTimeoutMs }: Aim): Promise<Seen> {
    const probe = { from: this.place(from), address, port, protocol, timeoutMs: timeoutMs * slowness };
    const outcomes = await inParallel(Array.from({ length: tries }), () => ask(probe));
    return summary(outcomes);
  }

  /** Number of tries that each pod answered. @throws Error if one was not answered */
  async tally({ from, address, port, protocol = 'tcp', tries = 100 }: Aim): Promise<ReadonlyMap<string, number>> {
    const probe = { from: this.place(from), address, port, protocol, timeoutMs: 5_000 * slowness };
    const outcomes = await inParallel(Array.from({ length: tries }), () => ask(probe));
    const counts = new Map<string, number>();
    for (const outcome of outcomes) {
      if (outcome.is !== 'OK') throw new Error(`${from} → ${address}: ${outcome.is}`);
      counts.set(outcome.answer.pod, (counts.get(outcome.answer.pod) ?? 0) + 1);
    }
    return counts;
  }

  /** Makes the outside network route an address to a node, like a load balancer's network. */
  async route(address: string, node: string): Promise<void> {
    const { family } = parseIp(address);
    const prefix = `${address}/${family === 'ipv4' ? 32 : 128}`;
    await runIn(this.place('external'), 'ip', ['route', 'replace', prefix, 'via', this.ip(node, family)], {}, patience());
  }

  /** Status and body of a page. */
  async page(from: string, address: string, port: number): Promise<{ readonly status: number; readonly body: unknown }> {
    const signal = AbortSignal.timeout(answerTimeoutMs * slowness);
    const socket = await connectTcpIn(this.place(from), address, port, signal);
    const closing = () => socket.destroy();
    signal.addEventListener('abort', closing);
    socket.end('GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n');
    const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
    signal.removeEventListener('abort', closing);
    return { status: Number(/^HTTP\/1.1 (\d+)/.exec(head)?.[1]), body: JSON.parse(body) };
  }

  /** Sentences of the problems that the agent of a node reports. */
  async problems(node: string): Promise<string> {
    const { apiSocket } = nodePaths(this.lab.plan.dir, node);
    const body = await new Promise<string>((resolve, reject) => {
      const asked = get({ socketPath: apiSocket, path: '/v1/status', agent: false }, (answer) => void text(answer).then(resolve, reject));
      asked.once('error', reject);
    });
    return body;
  }

  /** Events of an object: `Reason: message`. */
  async events(kind: string, name: string): Promise<readonly string[]> {
    const list = await this.lab.api.send({ method: 'GET', path: `${inDemo}/events` }, patience());
    const { items } = list as {
      items: readonly { involvedObject: { kind?: string; name?: string }; reason: string; message: string }[];
    };
    return items
      .filter(({ involvedObject }) => involvedObject.kind === kind && involvedObject.name === name)
      .map(({ reason, message }) => `${reason}: ${message}`);
  }

  /** Retries until the result is as expected; fails with the last difference. */
  async sees(aim: Aim, wanted: Partial<Seen>): Promise<void> {
    await eventually(async () =>
      expect(await this.look(aim), `${aim.from} → ${aim.address} port ${aim.port} ${aim.protocol ?? 'tcp'}`).toMatchObject(wanted),
    );
  }

  /** The same for both protocols on both families of a Service's cluster address, from each of the places. */
  async seesEverywhere(service: KubeService, from: readonly string[], wanted: Partial<Seen>, more: Partial<Aim> = {}): Promise<void> {
    await this.allSee(this.clusterAims(service, from), wanted, more);
  }

  clusterAims({ spec: { clusterIPs = [], ports } }: KubeService, from: readonly string[]): Aim[] {
    return from.flatMap((place) =>
      clusterIPs.flatMap((address) => ports.map(({ port, protocol }) => ({ from: place, address, port, protocol: protocolOf(protocol) }))),
    );
  }

  /** Both protocols on a Service's node ports, at the addresses of a node. */
  nodeAims(service: KubeService, from: string, node: string): Aim[] {
    return families.flatMap((family) =>
      protocols.map((protocol) => ({ from, address: this.ip(node, family), port: this.nodePort(service, protocol), protocol })),
    );
  }

  async allSee(aims: readonly Aim[], wanted: Partial<Seen>, more: Partial<Aim> = {}): Promise<void> {
    await Promise.all(aims.map((aim) => this.sees({ ...aim, ...more }, wanted)));
  }

  /** A Service's node port for a protocol. */
  nodePort({ spec: { ports } }: KubeService, protocol: Protocol): number {
    const port = ports.find((one) => one.protocol === protocol.toUpperCase())?.nodePort;
    if (port === undefined) throw new Error(`no node port for ${protocol}`);
    return port;
  }
}

function summary(outcomes: readonly Outcome[]): Seen {
  const once = (texts: readonly string[]) => [...new Set(texts)].toSorted();
  return {
    pods: once(outcomes.flatMap((one) => (one.is === 'OK' ? one.answer.pod.replace('demo/', '') : []))),
    failures: once(outcomes.flatMap((one) => (one.is === 'OK' ? [] : one.is === 'UNREACHABLE' ? one.errno : one.is))),
    clients: once(outcomes.flatMap((one) => (one.is === 'OK' ? hostOf(one.answer.client) : []))),
  };
}

/** The host of `address:port`. */
export function hostOf(endpoint: string): string {
  return endpoint.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}

function protocolOf(kube: string): Protocol {
  return kube === 'UDP' ? 'udp' : 'tcp';
}

export function ofFamily(ips: readonly string[], family: Family): string {
  const found = ips.find((ip) => parseIp(ip).family === family);
  if (found === undefined) throw new Error(`no ${family} address among ${ips.join(', ')}`);
  return found;
}

/** A pod that answers on the ports, TCP and UDP. */
export function podManifest(
  name: string,
  node: string,
  labels: Readonly<Record<string, string>>,
  more: object = {},
  ports: readonly number[] = [80],
): DemoManifest {
  const containerPorts = ports.flatMap((containerPort) =>
    protocols.map((protocol) => ({ name: `${protocol}-${containerPort}`, containerPort, protocol: protocol.toUpperCase() })),
  );
  const { container = {}, ...spec } = more as { container?: object };
  return {
    collection: `${inDemo}/pods`,
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels },
      spec: {
        nodeSelector: { 'kubernetes.io/hostname': node },
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'responder', image: 'responder', ports: containerPorts, ...container }],
        ...spec,
      },
    },
  };
}

export async function eventually(check: () => Promise<unknown>, timeout = followMs): Promise<void> {
  await vi.waitFor(check, { timeout, interval: followPollMs });
}
