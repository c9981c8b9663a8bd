import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Api, ApiObject } from '../api.ts';
import { Lab, type LabOptions, root } from '../lab.ts';
import { Random } from '../random.ts';
import { type Actors, createActors, hostileNamespace, rogueNode } from './actors.ts';
import { drawWrites, type WriteKind } from './draw-write.ts';
import { abridged, addressesIn, type Drawing, type HostileWrite } from './drawing.ts';
import { IsolationCheck, type NamedByAttackers, nodePortOf } from './isolation-check.ts';
import { LivezWatch } from './livez.ts';
import { Newcomers } from './newcomer.ts';
import { drawFault, faultEvery, faultText, injectNodeFault, type NodeFault } from './node-faults.ts';
import { drawRejoin } from './nodes.ts';
import { type ForeignAddress, foreignAddresses, gatewayOf } from './places.ts';
import { createVictim, type Victim, victimNamespace } from './victim.ts';

export interface HostileOptions extends LabOptions {
  readonly seed: number;
  readonly steps: readonly number[];
  /** Factor of the deadlines, for a busy host. */
  readonly patience: number;
  /** Kinds of writes; all if absent. */
  readonly kinds?: readonly WriteKind[];
  /** True if nodes also lose flows, OVS and agents. */
  readonly faults?: boolean;
  /** True to continue after a failure, as long as all agents live. */
  readonly goesOn?: boolean;
  readonly print: (line: string) => void;
}

export interface HostileReport {
  readonly number: number;
  readonly what: string;
  /** True if the API server stored it. */
  readonly accepted: boolean;
  readonly problems: readonly string[];
  readonly slowestLivezMs: number;
  readonly changeMs: number;
  /** Time until a new pod of the victim had its network (ms). */
  readonly addMs: number;
}

type Looked = Pick<HostileReport, 'problems' | 'slowestLivezMs' | 'changeMs' | 'addMs'>;

/** Deadline for liveness of an agent, for a change of another Service, and for the network of another new pod. */
export const withinMs = 1_000;
/** A pod without a network after this time counts as rejected, though the runtime has not reported it. */
const podStartMs = 1_500;
const pollMs = 50;
const rejoinEvery = 10;
const paths: Readonly<Record<HostileWrite['plural'], string>> = {
  services: `/api/v1/namespaces/${hostileNamespace}/services`,
  pods: `/api/v1/namespaces/${hostileNamespace}/pods`,
  endpointslices: `/apis/discovery.k8s.io/v1/namespaces/${hostileNamespace}/endpointslices`,
  networkpolicies: `/apis/networking.k8s.io/v1/namespaces/${hostileNamespace}/networkpolicies`,
  nodes: '/api/v1/nodes',
};
const listed = ['services', 'pods', 'endpointslices', 'networkpolicies'] as const;

/** A cluster in which a tenant, a pod author and a node's credentials write valid objects meant to harm others. */
export class HostileCluster {
  readonly #options: HostileOptions;
  readonly #lab: Lab;
  readonly #actors: Actors;
  readonly #victim: Victim;
  readonly #isolation: IsolationCheck;
  readonly #livez: LivezWatch;
  readonly #newcomers: Newcomers;
  readonly #foreign: readonly ForeignAddress[];
  /** Existing objects of the attackers, oldest first. */
  readonly #theirs: Record<string, readonly ApiObject[]> = {};
  #onRogue: readonly ApiObject[] = [];

  private constructor(options: HostileOptions, lab: Lab, actors: Actors, victim: Victim, foreign: readonly ForeignAddress[]) {
    this.#options = options;
    this.#lab = lab;
    this.#actors = actors;
    this.#victim = victim;
    this.#foreign = foreign;
    this.#isolation = new IsolationCheck(lab, victim, options.patience);
    this.#newcomers = new Newcomers(lab);
    this.#livez = new LivezWatch([lab.tried, lab.other], withinMs * options.patience);
  }

  static async begin(options: HostileOptions): Promise<HostileCluster> {
    const lab = await Lab.raise(options);
    try {
      const actors = await createActors(lab);
      await joinRogue(lab.api, ['10.244.40.0/22']);
      const victim = await createVictim(lab);
      const nodes = [lab.tried, lab.other];
      const nodeObjects = await lab.api.list('/api/v1/nodes');
      const { services, pods } = victim;
      const { loadBalancer, apiServer } = { loadBalancer: [], apiServer: await apiServerOf(lab.api) };
      const foreign = foreignAddresses({ nodes, pods, services, nodeObjects, loadBalancer, apiServer });
      return new HostileCluster(options, lab, actors, victim, foreign);
    } catch (thrown) {
      await lab.remove();
      throw thrown;
    }
  }

  /** Executes the steps until one harms another user. Step −1 checks the state before any write. */
  async *steps(): AsyncGenerator<HostileReport> {
    const before = await this.#look(new Random(this.#options.seed, -1), [], -1);
    yield { number: -1, what: 'nothing', accepted: true, ...before };
    if (before.problems.length > 0) return;
    for (const number of this.#options.steps) {
      const report = await this.#step(number);
      yield report;
      if (report.problems.length > 0 && !(this.#options.goesOn && (await this.#allLive()))) return;
    }
  }

  async end(): Promise<void> {
    await this.#livez.close();
    this.#isolation.close();
    await this.#lab.remove();
  }

  async #allLive(): Promise<boolean> {
    return (await this.#lab.status()).nodes.every(({ agentPid }) => agentPid !== null);
  }

  async #step(number: number): Promise<HostileReport> {
    const random = new Random(this.#options.seed, number);
    if (number % rejoinEvery === rejoinEvery - 1) await this.#rejoin(random);
    for (const plural of listed) this.#theirs[plural] = await this.#live(plural);
    this.#onRogue = (await this.#lab.api.list('/api/v1/pods')).filter(({ spec }) => spec?.['nodeName'] === rogueNode);
    const writes = drawWrites(number, this.#drawing(random), this.#options.kinds);
    const said: string[] = [];
    const problems: string[] = [];
    for (const write of writes) {
      const refusal = await this.#write(write);
      said.push(`${wordsOf(write)}${refusal === undefined ? '' : `: refused, ${refusal.slice(0, 300)}`}`);
      if (refusal !== undefined && / 5\d\d | 403 |: no answer$/.test(refusal)) problems.push(`the API server: ${refusal}`);
    }
    const fault = this.#options.faults && random.below(faultEvery) === 0 ? drawFault(random, this.#lab) : undefined;
    if (fault) said.push(faultText(fault));
    const whileFaulty = fault ? await this.#survive(fault, random, writes) : [];
    const [started, seen] = await Promise.all([this.#podsStart(writes), this.#look(random, writes, number)]);
    said.push(...started);
    const all = [...problems, ...whileFaulty, ...seen.problems];
    if (all.length > 0) this.#keep(number, writes);
    const accepted = said.every((line) => !line.includes(': refused'));
    return { ...seen, number, what: said.join('; '), accepted, problems: all };
  }

  /** A node fails and recovers. @returns harm meanwhile, in words */
  async #survive(fault: NodeFault, random: Random, writes: readonly HostileWrite[]): Promise<readonly string[]> {
    const node = await injectNodeFault(this.#lab, fault, this.#livez);
    const problems = await this.#isolation.whileFaulty(random, this.#foreign, await this.#named(writes));
    try {
      await node.start();
    } catch (thrown) {
      return [...problems, thrown instanceof Error ? thrown.message : String(thrown)];
    }
    return problems;
  }

  /** Waits until each of the written pods has a network or has been rejected. @returns the result of each */
  async #podsStart(writes: readonly HostileWrite[]): Promise<string[]> {
    const started = writes.filter(
      ({ verb, plural, object }) => verb === 'create' && plural === 'pods' && object.spec?.['nodeName'] === undefined,
    );
    const names = started.map(({ object }) => object.metadata.name);
    const untilMs = performance.now() + podStartMs * this.#options.patience;
    for (;;) {
      const { pods } = await this.#lab.status();
      const isThere = (name: string): boolean =>
        pods.some((pod) => pod.namespace === hostileNamespace && pod.name === name && pod.ips.length > 0);
      const refusals = names.every(isThere) ? new Map<string, string>() : await this.#sandboxRefusals();
      if (names.every((name) => isThere(name) || refusals.has(name)) || performance.now() > untilMs)
        return names.map((name) =>
          isThere(name) ? `${name} runs` : `${name} has no network, ${refusals.get(name) ?? 'and it is not reported'}`,
        );
      await sleep(pollMs);
    }
  }

  /** Pod → the plugin's last error as recorded by the runtime. */
  async #sandboxRefusals(): Promise<ReadonlyMap<string, string>> {
    const events = await this.#lab.api.list(`/api/v1/namespaces/${hostileNamespace}/events`);
    const failed = events.filter(({ reason }) => reason === 'FailedCreatePodSandBox');
    const nameOf = ({ involvedObject }: ApiObject): string => (involvedObject as { readonly name?: string } | undefined)?.name ?? '';
    return new Map(failed.map((event) => [nameOf(event), String(event['message']).slice(0, 200)]));
  }

  #drawing(random: Random): Drawing {
    const open = this.#victim.services.filter(({ spec }) => spec?.['type'] === 'LoadBalancer');
    const nodes = [this.#lab.tried.name, this.#lab.other.name];
    const nodePortsTaken = open.map(nodePortOf);
    return { random, foreign: this.#foreign, nodePortsTaken, nodes, theirs: this.#theirs, onRogue: this.#onRogue };
  }

  /** Live objects of a kind, oldest first; not the pods that the attack comes from. */
  async #live(plural: (typeof listed)[number]): Promise<readonly ApiObject[]> {
    const all = await this.#lab.api.list(paths[plural]);
    const own = all.filter(({ metadata }) => !/^attacker-\d$/.test(metadata.name) && !('ownerReferences' in metadata));
    const numberOf = ({ metadata }: ApiObject): number => Number(/-(\d+)$/.exec(metadata.name)?.[1] ?? 0);
    return own.filter(({ metadata }) => !('deletionTimestamp' in metadata)).toSorted((a, b) => numberOf(a) - numberOf(b));
  }

  /** @returns reason of the rejection; undefined if it was accepted */
  async #write({ actor, verb, plural, object, change = {} }: HostileWrite): Promise<string | undefined> {
    const api = this.#actors[actor];
    const { name, namespace = hostileNamespace } = object.metadata;
    const path = `${paths[plural].replace(`/${hostileNamespace}/`, `/${namespace}/`)}/${name}`;
    try {
      if (verb === 'create') await api.create(paths[plural], object);
      else if (verb === 'delete') await api.delete(path);
      else await api.patch(verb === 'patch' ? path : `${path}/status`, change);
      return undefined;
    } catch (thrown) {
      return thrown instanceof Error ? thrown.message : String(thrown);
    }
  }

  /** A new pod of the victim and a change of its Service happen while agents still process the writes; then all probes run. */
  async #look(random: Random, writes: readonly HostileWrite[], number: number): Promise<Looked> {
    const within = withinMs * this.#options.patience;
    const port = 10_000 + ((number + 2) % 10_000);
    const changing = await this.#lab.api.patch(`/api/v1/namespaces/${victimNamespace}/services/changing`, {
      spec: { ports: [{ name: 'tcp', protocol: 'TCP', port, targetPort: 80 }] },
    });
    const [arrival, change] = await Promise.all([this.#newcomers.arrive(number, within), this.#isolation.change(changing, port, within)]);
    const packets = await this.#isolation.afterWrite(random, this.#foreign, await this.#named(writes));
    const unreached = arrival.pod ? await this.#isolation.newcomer(arrival.pod) : [`a new pod has no network after ${within} ms`];
    const { problems, slowestMs } = this.#livez.take();
    return {
      problems: [...problems, ...change.problems, ...unreached, ...packets],
      slowestLivezMs: slowestMs,
      changeMs: change.tookMs,
      addMs: arrival.tookMs,
    };
  }

  /** Places that attackers have now, and those that they named just before. */
  async #named(writes: readonly HostileWrite[]): Promise<NamedByAttackers> {
    const [pods, services] = await Promise.all([this.#live('pods'), this.#live('services')]);
    // Their places when the step began may answer until agents have followed.
    const before = { pods: this.#theirs['pods'] ?? [], services: this.#theirs['services'] ?? [] };
    const theirs = { nodes: this.#nodesWithGateways(), pods: [...pods, ...before.pods], services: [...services, ...before.services] };
    const written = writes.map(({ object, change: patch }) => ({ object, patch }));
    const addresses = new Set([...addressesIn(written), ...(wantsEveryAddress(written) ? this.#nodeAddresses() : [])]);
    return { addresses, ports: portsIn(written), theirs };
  }

  /** A node also has its gateway's address, and host ports of all its addresses are on that too. */
  #nodesWithGateways(): readonly { readonly name: string; readonly ip: readonly string[] }[] {
    return [this.#lab.tried, this.#lab.other].map(({ name, ip }) => {
      const gateways = this.#foreign.filter(({ whose }) => whose === gatewayOf(name)).map(({ address }) => address);
      return { name, ip: [...ip, ...gateways] };
    });
  }

  #nodeAddresses(): readonly string[] {
    return [this.#lab.tried, this.#lab.other].flatMap(({ ip }) => ip);
  }

  /** The rogue host is reinstalled: its Node is deleted, and its kubelet recreates it with networks that belong to others. */
  async #rejoin(random: Random): Promise<void> {
    await this.#lab.api.delete(`/api/v1/nodes/${rogueNode}`);
    const podCidrs = drawRejoin(this.#drawing(random));
    this.#options.print(`the Node ${rogueNode} joins again, with ${podCidrs.join(', ')}`);
    await joinRogue(this.#lab.api, podCidrs);
  }

  /** Writes complete objects, for analysis. */
  #keep(number: number, writes: readonly HostileWrite[]): void {
    const folder = join(root, '.cache', 'hostile');
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${this.#options.seed}-${number}.json`);
    writeFileSync(file, `${JSON.stringify({ writes, theirs: this.#theirs }, null, 1)}\n`);
    this.#options.print(`what was written last, and what was there of the attackers': ${file}`);
    for (const { object, change } of writes) this.#options.print(JSON.stringify(abridged(change ?? object)));
  }
}

async function joinRogue(api: Api, podCIDRs: readonly string[]): Promise<void> {
  await api.create('/api/v1/nodes', { metadata: { name: rogueNode }, spec: { podCIDR: podCIDRs[0], podCIDRs } });
  const addresses = [{ type: 'InternalIP', address: '192.168.77.66' }];
  await api.patch(`/api/v1/nodes/${rogueNode}/status`, { status: { addresses } });
}

/** Address of the API server as seen from nodes. */
async function apiServerOf(api: Api): Promise<string> {
  const slices = await api.list('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices');
  const endpoints = slices.flatMap(({ endpoints: all }) => (all ?? []) as readonly { readonly addresses: readonly string[] }[]);
  return endpoints[0]?.addresses[0] ?? '172.31.255.254';
}

function wordsOf({ actor, verb, plural, object, change }: HostileWrite): string {
  const bytes = JSON.stringify(change ?? object).length;
  const ports = verb === 'create' && plural === 'pods' ? `, host ports ${hostPortsIn(object)}` : '';
  return `the ${actor}: ${verb} ${plural} ${object.metadata.name}${verb === 'delete' ? '' : ` (${bytes} bytes${ports})`}`;
}

/** The first host port, in readable form. */
function hostPortsIn(pod: ApiObject): string {
  const found = Array.from(JSON.stringify(pod).matchAll(/"hostPort":(\d+),"protocol":"(\w+)"(?:,"hostIP":"([^"]*)")?/g));
  return found
    .slice(0, 3)
    .map(([, port, protocol, address = '']) => `${address} ${port}/${protocol}`.trim())
    .join(', ');
}

/** Reports whether a host port is on each address of a node. */
function wantsEveryAddress(written: unknown): boolean {
  return /"hostPort":\d+,"protocol":"\w+"(?:\}|,"hostIP":"(?:0\.0\.0\.0|::)")/.test(JSON.stringify(written));
}

/** Ports that writes name, those of pods first; each once. */
function portsIn(value: unknown): readonly number[] {
  const found = JSON.stringify(value).matchAll(/"(?:hostPort|port|nodePort|healthCheckNodePort)":(\d+)/g);
  return [...new Set(Array.from(found, ([, port]) => Number(port)))];
}
