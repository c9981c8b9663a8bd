import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ApiObject } from '../api.ts';
import { startNodeProgram } from '../host.ts';
import type { Lab, LabPod } from '../lab.ts';
import type { Random } from '../random.ts';
import { hostileNamespace } from './actors.ts';
import type { ForeignAddress } from './places.ts';
import { nodeProgram, nodeProgramPort, Prober, type ProbeTarget } from './probes.ts';
import { isTheirs, type TheirPorts } from './their-ports.ts';
import { loadBalancerAddresses, type Victim, victimNamespace } from './victim.ts';

/** Probes of one place, and permitted responders. */
interface Expectation {
  readonly from: string;
  readonly what: string;
  readonly target: ProbeTarget;
  readonly by: 'victim' | 'node' | 'no responder' | 'not the attackers';
}

const answerMs = 1_500;
const silentMs = 300;
const addressesMost = 12;
const portsMost = 5;
/** Ports tested besides those that objects name. */
const usualPorts = [80, 443, 22, 6443, 10_250, 10_256] as const;
/** Maximum memory of an agent in a lab. */
const residentMost = 1024 * 1024 * 1024;

/** Checks after each step, with packets, that the victim is served and the attackers have only what is theirs. */
export class IsolationCheck {
  readonly #lab: Lab;
  readonly #victim: Victim;
  readonly #patience: number;
  readonly #probers: ReadonlyMap<string, Prober>;
  readonly #log: number;
  readonly #programs: readonly ChildProcess[];

  constructor(lab: Lab, victim: Victim, patience: number) {
    this.#lab = lab;
    this.#victim = victim;
    this.#patience = patience;
    this.#log = openSync(join(lab.dir, 'probers.log'), 'a');
    const pods = [...victim.pods, ...victim.attackers].filter(({ name }) => /^(?:client|attacker)-/.test(name));
    const labId = lab.tried.netns.split('-')[1] ?? '';
    const external = lab.tried.netns.replace(new RegExp(`${lab.tried.name}$`), 'external');
    const places: readonly (readonly [string, string])[] = [
      ...pods.map(({ name, netns }) => [name, netns] as const),
      ...[lab.tried, lab.other].map(({ name, netns }) => [name, netns] as const),
      ['outside', external],
    ];
    const mark = { SEINE_LAB: labId };
    this.#programs = [lab.tried, lab.other].map(({ netns }) => startNodeProgram(netns, 'hostile/node-program.ts', [], this.#log, mark));
    this.#probers = new Map(places.map(([name, netns]) => [name, new Prober(netns, this.#log, mark)]));
  }

  close(): void {
    for (const prober of this.#probers.values()) prober.close();
    for (const program of this.#programs) program.kill('SIGKILL');
    closeSync(this.#log);
  }

  /** Checks that a Service of the victim that has just changed is served. @returns problems, and the duration (ms) */
  async change(
    service: ApiObject,
    port: number,
    withinMs: number,
  ): Promise<{ readonly problems: readonly string[]; readonly tookMs: number }> {
    const addresses = addressesOf(service);
    const target = (address: string): ProbeTarget => ({ protocol: 'tcp', address, port, tryMs: 200, withinMs });
    const expected = ['client-1', 'client-2'].flatMap((from) =>
      addresses.map((address): Expectation => ({ from, what: 'a Service that has changed', target: target(address), by: 'victim' })),
    );
    return await this.#hold(expected);
  }

  /**
   * Checks a node without its flows, its OVS or its agent: denied traffic stays denied, and packets of others do not reach the attackers.
   */
  async whileFaulty(random: Random, foreign: readonly ForeignAddress[], named: NamedByAttackers): Promise<readonly string[]> {
    return (await this.#hold([...this.#denied(), ...this.#notTaken(random, foreign, named)])).problems;
  }

  /** Checks a pod of the victim that has just started. */
  async newcomer({ name, ips }: LabPod): Promise<readonly string[]> {
    const withinMs = 2 * answerMs * this.#patience;
    const target = (address: string): ProbeTarget => ({ protocol: 'tcp', address, port: 80, tryMs: answerMs, withinMs });
    const expected = ['client-1', 'client-2'].flatMap((from) =>
      ips.map((address): Expectation => ({ from, what: name, target: target(address), by: 'victim' })),
    );
    return (await this.#hold(expected)).problems;
  }

  /** @param named addresses and ports in the last writes of the attackers */
  async afterWrite(random: Random, foreign: readonly ForeignAddress[], named: NamedByAttackers): Promise<readonly string[]> {
    const { problems } = await this.#hold([...this.#served(), ...this.#denied(), ...this.#notTaken(random, foreign, named)]);
    return [...problems, ...(await this.#tooLarge())];
  }

  async #hold(expected: readonly Expectation[]): Promise<{ readonly problems: readonly string[]; readonly tookMs: number }> {
    const byPlace = Map.groupBy(expected, ({ from }) => from);
    const answers = await Promise.all(
      Array.from(byPlace, async ([from, those]) => {
        const outcomes = await this.#prober(from).ask(those.map(({ target }) => target));
        return those.map((expectation, index) => ({ expectation, outcome: outcomes[index] ?? { tookMs: 0 } }));
      }),
    );
    const all = answers.flat();
    const problems = all.flatMap(({ expectation, outcome }) => {
      const wrong = faultOf(expectation.by, outcome.by);
      const { protocol, address, port } = expectation.target;
      return wrong === undefined ? [] : [`from ${expectation.from} to ${expectation.what}, ${protocol} ${address} port ${port}: ${wrong}`];
    });
    return { problems, tookMs: Math.max(0, ...all.map(({ outcome }) => outcome.tookMs)) };
  }

  #prober(from: string): Prober {
    const prober = this.#probers.get(from);
    if (prober === undefined) throw new Error(`there is no prober in ${from}`);
    return prober;
  }

  #served(): Expectation[] {
    const withinMs = 2 * answerMs * this.#patience;
    const to = (
      from: string,
      what: string,
      addresses: readonly string[],
      port: number,
      protocols: readonly ('tcp' | 'udp')[],
    ): Expectation[] =>
      addresses.flatMap((address) =>
        protocols.map((protocol) => ({
          from,
          what,
          target: { protocol, address, port, tryMs: answerMs, withinMs },
          by: 'victim' as const,
        })),
      );
    const both = ['tcp', 'udp'] as const;
    const servers = this.#victim.pods.filter(({ name }) => name.startsWith('server-'));
    const inner = this.#victim.pods.filter(({ name }) => name.startsWith('inner-'));
    const [guarded, open] = [this.#service('guarded'), this.#service('open')];
    const nodes = [this.#lab.tried, this.#lab.other];
    return [
      ...['client-1', 'client-2'].flatMap((from) => [
        ...servers.flatMap(({ name, ips }) => to(from, name, ips, 80, both)),
        ...inner.flatMap(({ name, ips }) => to(from, name, ips, 80, both)),
        ...to(from, 'the guarded Service', addressesOf(guarded), 80, both),
        ...to(from, 'the load balancer', loadBalancerAddresses, 80, ['tcp']),
      ]),
      ...nodes.flatMap(({ name }) => to(name, 'the open Service', addressesOf(open), 80, ['tcp'])),
      ...nodes.flatMap(({ name, ip }) => this.#programAt(name, ip)),
      ...nodes.flatMap(({ name, ip }) => to('outside', `the node port of ${name}`, ip, nodePortOf(open), ['tcp'])),
    ];
  }

  #programAt(node: string, ip: readonly string[]): Expectation[] {
    const withinMs = 2 * answerMs * this.#patience;
    const target = (address: string): ProbeTarget => ({ protocol: 'tcp', address, port: nodeProgramPort, tryMs: answerMs, withinMs });
    return ['client-1', 'client-2', 'outside'].flatMap((from) =>
      ip.map((address): Expectation => ({ from, what: `a program of ${node}`, target: target(address), by: 'node' })),
    );
  }

  #denied(): Expectation[] {
    const servers: readonly LabPod[] = this.#victim.pods.filter(({ name }) => name.startsWith('server-'));
    const addresses = [...servers.flatMap(({ ips }) => ips), ...addressesOf(this.#service('guarded'))];
    const noAnswer = (from: string, what: string, address: string, port: number): Expectation => ({
      from,
      what,
      target: silent('tcp', address, port),
      by: 'no responder',
    });
    const inner = nodePortOf(this.#service('inner'));
    return [
      ...['attacker-1', 'attacker-2'].flatMap((from) =>
        addresses.map((address) => noAnswer(from, 'a pod that lets clients in alone', address, 80)),
      ),
      ...this.#victim.innerNode.map((address) => noAnswer('outside', 'a pod that lets pods in alone', address, inner)),
    ];
  }

  #notTaken(random: Random, foreign: readonly ForeignAddress[], { addresses, ports, theirs }: NamedByAttackers): Expectation[] {
    const named = foreign.filter(({ address }) => addresses.has(address));
    const others = foreign.filter(({ address }) => !addresses.has(address));
    const tried = [...named.slice(0, addressesMost), ...random.some(others)].slice(0, addressesMost);
    const portsTried = [...new Set([...ports.slice(0, portsMost), ...random.some(usualPorts)])].slice(0, portsMost + 2);
    return ['client-1', 'client-2', this.#lab.tried.name, this.#lab.other.name, 'outside'].flatMap((from) =>
      tried.flatMap(({ whose, address }) =>
        portsTried.flatMap((port) =>
          (port === 53 || port === 80 ? (['tcp', 'udp'] as const) : (['tcp'] as const)).flatMap((protocol): Expectation[] => {
            if (isTheirs(theirs, { from, address, port, protocol })) return [];
            return [{ from, what: whose, target: silent(protocol, address, port), by: 'not the attackers' }];
          }),
        ),
      ),
    );
  }

  #service(name: string): ApiObject {
    const found = this.#victim.services.find(({ metadata }) => metadata.name === name);
    if (found === undefined) throw new Error(`the victim has no Service ${name}`);
    return found;
  }

  async #tooLarge(): Promise<string[]> {
    const { nodes } = await this.#lab.status();
    return nodes.flatMap(({ name, agentPid }) => {
      if (agentPid === null) return [`the agent of ${name} has ended`];
      const bytes = residentOf(agentPid);
      return bytes > residentMost ? [`the agent of ${name} has ${Math.round(bytes / 1024 / 1024)} MiB of memory`] : [];
    });
  }
}

/** Addresses and ports in attackers' objects. */
export interface NamedByAttackers {
  readonly addresses: ReadonlySet<string>;
  readonly ports: readonly number[];
  readonly theirs: TheirPorts;
}

function faultOf(expected: Expectation['by'], by: string | undefined): string | undefined {
  if (expected === 'victim') return by?.startsWith(`${victimNamespace}/`) ? undefined : by === undefined ? 'no answer' : `${by} answers`;
  if (expected === 'node') return by === nodeProgram ? undefined : by === undefined ? 'no answer' : `${by} answers`;
  if (expected === 'no responder') return by === undefined ? undefined : `${by} answers, and none may`;
  return by?.startsWith(`${hostileNamespace}/`) ? `${by} answers, whose address it is not` : undefined;
}

function silent(protocol: 'tcp' | 'udp', address: string, port: number): ProbeTarget {
  return { protocol, address, port, tryMs: silentMs, withinMs: silentMs };
}

function addressesOf({ spec }: ApiObject): readonly string[] {
  return (spec?.['clusterIPs'] ?? []) as readonly string[];
}

export function nodePortOf({ spec }: ApiObject): number {
  return ((spec?.['ports'] ?? []) as readonly { readonly nodePort?: number }[])[0]?.nodePort ?? 0;
}

/** Source: proc_pid_status(5). 0 if the process has just ended. */
function residentOf(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
