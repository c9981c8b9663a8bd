import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import {
  type HostPort,
  type HostPortCheck,
  type HostPortState,
  hostPortText,
  openHostPort,
  placeOf,
  rejectionText,
} from '../../dataplane/compile/host-port.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { type FirewallKey, isTable } from '../../dataplane/targets/host/firewall-target.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { HostPortChange, HostPortConnections, HostPortsOfPod } from './host-port-connections.ts';
import { hostPortElements, hostPortFirewall, hostPortsTable } from './host-port-firewall.ts';
import type { PluginLeftovers } from './plugin-leftovers.ts';

const tableOwner = ownerOf('node', 'host-ports');

/** Properties of an attachment that are read here. */
interface PodWithHostPorts {
  readonly network: string;
  readonly containerId: string;
  readonly addresses: readonly { readonly ip: Ip }[];
  readonly hostPorts?: readonly HostPort[];
  readonly pod?: { readonly namespace: string; readonly name: string } | undefined;
}

/** Host ports of a pod as they are served. */
interface Served {
  readonly pod: PodWithHostPorts;
  readonly states: readonly (readonly [HostPort, HostPortState])[];
  readonly elements: ReadonlyMap<FirewallKey, string>;
  readonly revision: number;
}

interface HostPortsOptions {
  readonly nodeState: Pick<NodeState, 'wantElements'> & {
    readonly firewall: Pick<NodeState['firewall'], 'keysOf' | 'wanted'>;
    readonly reconcilers: {
      readonly firewall: Pick<NodeState['reconcilers']['firewall'], 'realized' | 'realizedFor' | 'realizedRevision' | 'actual'>;
    };
  };
  readonly environment: () => NodeEnvironment;
  readonly connections: Pick<HostPortConnections, 'forget' | 'forgetUntranslated'>;
  readonly leftovers: Pick<PluginLeftovers, 'remove'>;
  /** Called when the use of host ports at the node's loopback begins or ends. */
  readonly loopbackChanged: (usesLoopback: boolean) => void;
  readonly log: Log;
  /** Aborts when the agent ends. */
  readonly signal: AbortSignal;
}

/** Host ports of this node's pods, as desired elements of nftables. The lease of each pod has its host ports. */
export class HostPorts {
  readonly #options: HostPortsOptions;
  /** Pods with a host port that processes of the node can reach at 127.0.0.1. */
  readonly #atLoopback = new Set<Owner>();
  readonly #served = new Map<Owner, Served>();
  #check: HostPortCheck = () => openHostPort;
  #report: (sentences: readonly string[]) => void = () => undefined;
  /** Revision that nftables must have reached before an address that was released may be allocated again. */
  #lastForgotten = -1;
  /** Revision of the last comparison, and number of comparisons. */
  #revision = -1;
  #comparisons = 0;
  #isForgetting = false;

  constructor(options: HostPortsOptions) {
    this.#options = options;
  }

  /** Sets the desired state that does not depend on pods; to be called again when the node's address families have changed. */
  want(): void {
    const { nodeState, environment } = this.#options;
    const { gateway } = environment();
    const body = hostPortFirewall({ families: familiesOf(environment()), gateway: gateway.name });
    nodeState.wantElements(tableOwner, new Map([[`table/${hostPortsTable}` as const, body]]));
  }

  /** Sets the check of host ports, once the other ports and addresses of the node are known. */
  use(check: HostPortCheck): void {
    this.#check = check;
  }

  /** Sets the listener for problems of host ports, and calls it at once. */
  report(listener: (sentences: readonly string[]) => void): void {
    this.#report = listener;
    listener(this.problems());
  }

  /** Compares all host ports with the current state of the node and the cluster. */
  compare(): void {
    for (const [owner, { pod }] of this.#served) this.#revision = Math.max(this.#revision, this.#want(owner, pod) ?? -1);
    this.#report(this.problems());
    this.#comparisons++;
    if (!this.#isForgetting) void this.#forgetLost();
  }

  /** Deletes connections that are no longer translated once nftables has the state of the last comparison; one at a time. */
  async #forgetLost(): Promise<void> {
    const { nodeState, signal } = this.#options;
    this.#isForgetting = true;
    try {
      for (let done = -1; done !== this.#comparisons; ) {
        done = this.#comparisons;
        await nodeState.reconcilers.firewall.realized(this.#revision, signal);
        await this.#forgetUntranslated();
      }
    } catch {
      // the agent stops
    } finally {
      this.#isForgetting = false;
    }
  }

  /** Descriptions of host ports that are not served as their pod requests, one sentence each. */
  problems(): readonly string[] {
    return [...this.#served.values()].flatMap(({ pod, states }) => states.flatMap(([each, state]) => problemOf(pod, each, state) ?? []));
  }

  /** Reports whether the gateway must route loopback addresses. */
  get usesLoopback(): boolean {
    return this.#atLoopback.size > 0;
  }

  /** Resolves once nftables translates them to the pod. @throws SeineError `REFUSED` if nftables does not accept them, `CANCELLED` */
  async attach(owner: Owner, pod: PodWithHostPorts, signal: AbortSignal): Promise<void> {
    const revision = this.#want(owner, pod);
    if (revision === undefined) return;
    await this.#options.nodeState.reconcilers.firewall.realizedFor(owner, revision, signal);
    await this.#forgetConnections(pod, 'came');
    this.#report(this.problems());
  }

  /** Adopts the host ports of a running pod. */
  adopt(owner: Owner, pod: PodWithHostPorts): void {
    this.#want(owner, pod);
  }

  detach(owner: Owner, pod: PodWithHostPorts): void {
    this.#removeLeftovers(pod);
    if (!pod.hostPorts?.length) return;
    const { nodeState, signal } = this.#options;
    this.#served.delete(owner);
    this.#lastForgotten = nodeState.wantElements(owner, new Map());
    this.#report(this.problems());
    if (this.#atLoopback.delete(owner) && !this.usesLoopback) this.#options.loopbackChanged(false);
    nodeState.reconcilers.firewall.realized(this.#lastForgotten, signal).then(
      async () => await this.#forgetConnections(pod, 'went'),
      () => undefined, // the agent stops
    );
  }

  /** Reports whether no element for a removed pod is left. */
  get isClear(): boolean {
    return this.#options.nodeState.reconcilers.firewall.realizedRevision >= this.#lastForgotten;
  }

  /** Returns differences of a pod's elements in nftables, one sentence each. */
  differences(owner: Owner): readonly string[] {
    const { firewall, reconcilers } = this.#options.nodeState;
    const held = reconcilers.firewall.actual();
    if (held === undefined) return [];
    return firewall
      .keysOf(owner)
      .filter((key) => !isTable(key) && held.get(key) !== firewall.wanted(key))
      .map((key) => `host port: element ${elementOf(key)} is ${held.has(key) ? 'changed' : 'missing'} in nftables table ${hostPortsTable}`);
  }

  /** Updates the desired elements of a pod. @returns the revision; undefined if the pod has no host ports */
  #want(owner: Owner, pod: PodWithHostPorts): number | undefined {
    const { addresses, hostPorts = [] } = pod;
    if (hostPorts.length === 0) return undefined;
    const ips = addresses.map(({ ip }) => ip);
    const states = hostPorts.map((each) => [each, this.#check(each)] as const);
    const served = states.flatMap(([each, { forbidden, kept }]) => (forbidden ? [] : [{ ...each, kept }]));
    const elements = hostPortElements(ips, served);
    const known = this.#served.get(owner);
    const revision = known && isSame(known.elements, elements) ? known.revision : this.#options.nodeState.wantElements(owner, elements);
    this.#served.set(owner, { pod, states, elements, revision });
    if (hostPorts.some(isAtLoopback) && ips.some(({ family }) => family === 'ipv4')) {
      const before = this.usesLoopback;
      this.#atLoopback.add(owner);
      if (!before) this.#options.loopbackChanged(true);
    }
    return revision;
  }

  /** Removes what other plugins made for a pod that was attached while they were in the configuration. */
  #removeLeftovers({ network, containerId }: PodWithHostPorts): void {
    const { leftovers, log } = this.#options;
    try {
      const removed = leftovers.remove({ network, containerId });
      if (removed.length > 0)
        log.info('removed rules of other plugins with their pod', { container: containerId, removed: removed.join(', ') });
      log.working('plugin leftovers');
    } catch (thrown) {
      const { message: cause } = SeineError.from(thrown, 'remove leftovers');
      log.failing('plugin leftovers', 'rules of portmap or bandwidth for a pod could not be removed', {
        container: containerId,
        cause,
      });
    }
  }

  async #forgetUntranslated(): Promise<void> {
    const pods = Array.from(this.#served.values(), ({ pod: { addresses, hostPorts = [] }, states }) => ({
      addresses: addresses.map(({ ip }) => ip),
      hostPorts,
      lost: new Set(states.filter(([, { forbidden }]) => forbidden !== undefined).map(([each]) => each)),
    }));
    await this.#tryForget(
      'lost host ports',
      'connections to host ports that are not served any more could not be forgotten',
      (connections) => connections.forgetUntranslated(pods),
    );
  }

  async #forgetConnections({ addresses, hostPorts = [] }: PodWithHostPorts, change: HostPortChange): Promise<void> {
    const pod: HostPortsOfPod = { addresses: addresses.map(({ ip }) => ip), hostPorts };
    await this.#tryForget('host port connections', 'stale connections to host ports could not be forgotten', (connections) =>
      connections.forget(pod, change),
    );
  }

  async #tryForget(what: string, failure: string, act: (connections: HostPortsOptions['connections']) => Promise<number>): Promise<void> {
    const { connections, log } = this.#options;
    try {
      await act(connections);
      log.working(what);
    } catch (thrown) {
      log.failing(what, failure, { cause: SeineError.from(thrown, 'forget connections').message });
    }
  }
}

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && [...one].every(([key, value]) => other.get(key) === value);
}

function problemOf({ pod, containerId }: PodWithHostPorts, each: HostPort, state: HostPortState): string | undefined {
  const { forbidden, occupied, isWaiting } = state;
  const about = `${pod ? `pod ${pod.namespace}/${pod.name}` : `container ${containerId}`}: host port ${hostPortText(each)}`;
  if (forbidden) return `${about} is not served: ${rejectionText(each, forbidden)}; change the pod's ${forbidden.field}`;
  if (isWaiting) return `${about} waits for its address, which the node does not have`;
  return occupied && `${about} hides a process of the node: ${rejectionText(each, occupied)}; change the pod's hostPort`;
}

function isAtLoopback(each: HostPort): boolean {
  const place = placeOf(each, 'ipv4');
  return place === 'everywhere' || place?.text.startsWith('127.') === true;
}

function elementOf(key: FirewallKey): string {
  return key.split('/').slice(2).join('/');
}
