import { SeineError } from '../../base/errors/seine-error.ts';
import { CidrUnion } from '../../base/net/cidr-union.ts';
import type { Cidr, Family } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import {
  compileDirectRoutes,
  compilePeerFlows,
  compilePeerRoutes,
  type PeerIntent,
  reachedNetworks,
  tunnelledNetworks,
} from '../../dataplane/compile/compile-peer.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState, Revisions } from '../../dataplane/targets/node-state.ts';
import { changeSteps, type PeerEntries } from '../modes/change-steps.ts';

/** Part of `NodeState` that has the entries of peers. */
type PeerState = Pick<NodeState, 'want' | 'forget' | 'realized' | 'host' | 'reconcilers'>;

interface PeerInstallerOptions {
  readonly nodeState: PeerState;
  readonly environment: () => NodeEnvironment;
  /** Returns the path by which the node already sends to a network without a tunnel: that of a previous agent. */
  readonly inheritedPath?: (network: Cidr) => DirectPath | undefined;
  /** Waits until packets are forwarded by the flows that the bridge has now; absent: they are as soon as it has them. */
  readonly whenFlowsApplied?: () => Promise<void>;
  /** Waits before a refused step is checked again. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
  /** Called when a step of a peer was refused, or no longer is. */
  readonly refusalChanged?: (name: string) => void;
}

/** Step that was set and may not be applied yet. */
interface TakenStep {
  readonly revisions: Revisions;
  readonly hasNewFlows: boolean;
}

const none: PeerEntries = { flows: () => [], routes: [], sends: {}, tunnelled: [], direct: [] };

/**
 * Sets the entries of each peer in the desired state, and the routes to all peers that this node reaches through the tunnel. A change of a
 * peer's mode takes several steps: each is set once the node has applied the one before. A newer intent replaces the remaining steps at any
 * time; the steps to it begin with the entries that are desired at that moment.
 */
export class PeerInstaller {
  readonly #options: PeerInstallerOptions;
  readonly #current = new Map<string, PeerEntries>();
  /** Peers whose remaining steps wait for the node. */
  readonly #changes = new Map<string, AbortController>();
  readonly #refusals = new Map<string, string>();
  readonly #routed = new CidrUnion();
  /** Resolves once the bridge has no flows of a previous agent; set before the first peer. */
  previousGone: Promise<void> = Promise.resolve();
  /** Networks of the union that were last requested as routes. */
  #routes = new Set<string>();

  constructor(options: PeerInstallerOptions) {
    this.#options = options;
  }

  /**
   * Sets the entries of a peer, or removes them. The routes to tunnelled networks follow with `wantRoutes`.
   *
   * @throws Error of the compiler
   */
  set(name: string, intent: PeerIntent | undefined): void {
    const after = intent && this.#entriesOf(intent);
    const before = intent && after && (this.#current.get(name) ?? this.#inherited(intent, after));
    this.#stop(name);
    if (!after) {
      this.#options.nodeState.forget(ownerOf('peer', name));
      this.#reach(name, undefined);
      return;
    }
    const [first, ...others] = changeSteps(before ?? none, after);
    if (others.length > 0) after.flows(); // throws now what a later step would
    const revisions = first && this.#want(name, first);
    const hasNewFlows = before?.flows !== first?.flows;
    if (revisions && others.length > 0) this.#follow(name, { revisions, hasNewFlows }, others);
  }

  /** Returns the reason why the node refuses the entries of a peer's new mode; it is still in the previous one. */
  refusalOf(name: string): string | undefined {
    return this.#refusals.get(name);
  }

  /** Reasons by peer, see `refusalOf`. */
  get refusals(): ReadonlyMap<string, string> {
    return this.#refusals;
  }

  /** Returns the part of the compiler's input by which the desired flows send to a peer. */
  sendsOf(name: string): PeerEntries['sends'] {
    return this.#current.get(name)?.sends ?? {};
  }

  /**
   * Sets routes individually: thousands of unchanged ones are not compiled again for a new one. New ones come first, then those that they
   * replace are removed.
   */
  wantRoutes(): void {
    const { nodeState, environment } = this.#options;
    const before = this.#routes;
    this.#routes = new Set();
    for (const network of this.#routed.cover()) {
      this.#routes.add(network.text);
      if (!before.delete(network.text)) nodeState.want(routeOwner(network.text), compilePeerRoutes([network], environment()));
    }
    for (const gone of before) nodeState.forget(routeOwner(gone));
  }

  #stop(name: string): void {
    this.#changes.get(name)?.abort();
    this.#changes.delete(name);
    this.#note(name, undefined);
  }

  #want(name: string, entries: PeerEntries): Revisions {
    const revisions = this.#options.nodeState.want(ownerOf('peer', name), { ...nothing, flows: entries.flows(), routes: entries.routes });
    this.#reach(name, entries);
    return revisions;
  }

  /** Sets the remaining steps, each after the one before. */
  #follow(name: string, first: TakenStep, steps: readonly PeerEntries[]): void {
    const change = new AbortController();
    this.#changes.set(name, change);
    this.wantRoutes();
    this.#takeSteps(name, first, steps, change.signal).then(
      () => {
        if (this.#changes.get(name) === change) this.#changes.delete(name);
      },
      (thrown: unknown) => {
        if (!change.signal.aborted) this.#note(name, SeineError.from(thrown, `peer ${name}`).message);
      },
    );
  }

  async #takeSteps(name: string, first: TakenStep, steps: readonly PeerEntries[], signal: AbortSignal): Promise<void> {
    let { revisions, hasNewFlows } = first;
    // Flows that send directly take precedence over those of the tunnel: packets follow a previous agent's until these are removed.
    await this.previousGone;
    signal.throwIfAborted();
    for (const step of steps) {
      await this.#applied(name, revisions, signal);
      if (hasNewFlows) await this.#forwarded(signal);
      hasNewFlows = this.#current.get(name)?.flows !== step.flows;
      revisions = this.#want(name, step);
      this.wantRoutes();
    }
  }

  /** Resolves once packets follow the flows. */
  async #forwarded(signal: AbortSignal): Promise<void> {
    const { whenFlowsApplied, pause } = this.#options;
    for (let isApplied = whenFlowsApplied === undefined; !isApplied; ) {
      isApplied =
        (await whenFlowsApplied?.().then(
          () => true,
          () => false,
        )) ?? true;
      signal.throwIfAborted();
      if (!isApplied) await pause(signal);
    }
  }

  /** Resolves once the node has applied a step; waits while it refuses it, e.g. because another program has a route to the network. */
  async #applied(name: string, revisions: Revisions, signal: AbortSignal): Promise<void> {
    const { nodeState, pause } = this.#options;
    const { revision } = nodeState.host; // with the routes of the union
    for (;;) {
      try {
        await nodeState.reconcilers.host.realized(revision, signal);
        await nodeState.realized(revisions, signal);
        this.#note(name, undefined);
        return;
      } catch (thrown) {
        signal.throwIfAborted();
        const error = SeineError.from(thrown, `peer ${name}`);
        if (error.code !== 'REFUSED') throw error;
        this.#note(name, error.message);
        await pause(signal);
      }
    }
  }

  #note(name: string, refusal: string | undefined): void {
    if (this.#refusals.get(name) === refusal) return;
    if (refusal === undefined) this.#refusals.delete(name);
    else this.#refusals.set(name, refusal);
    this.#options.refusalChanged?.(name);
  }

  #entriesOf(intent: PeerIntent): PeerEntries {
    const environment = this.#options.environment();
    const tunnelled = tunnelledNetworks(intent, environment);
    const direct = reachedNetworks(intent, environment).filter((network) => !tunnelled.includes(network));
    const { direct: paths, maySendDirectly } = intent;
    const sends = { ...(paths ? { direct: paths } : {}), ...(maySendDirectly ? { maySendDirectly } : {}) };
    const flows = () => compilePeerFlows(intent, environment);
    return { flows, routes: compileDirectRoutes(intent, environment), sends, tunnelled, direct };
  }

  /** Returns the entries that a previous agent has left for a peer: those of the tunnel unless the kernel has a route that bypasses it. */
  #inherited(intent: PeerIntent, after: PeerEntries): PeerEntries | undefined {
    const { inheritedPath = () => undefined } = this.#options;
    const { direct: _, ...others } = intent;
    const direct: Partial<Record<Family, DirectPath>> = {};
    for (const network of [...after.tunnelled, ...after.direct]) {
      const path = inheritedPath(network);
      if (path) direct[network.family] = path;
    }
    if (Object.keys(direct).length > 0) return this.#entriesOf({ ...others, direct });
    return after.direct.length > 0 ? this.#entriesOf(others) : undefined;
  }

  /** Adds before it removes: a network that moves from node to node always has a route. */
  #reach(name: string, entries: PeerEntries | undefined): void {
    const before = this.#current.get(name)?.tunnelled ?? [];
    for (const network of entries?.tunnelled ?? []) this.#routed.add(network);
    for (const network of before) this.#routed.remove(network);
    if (entries && entries.tunnelled.length + entries.direct.length > 0) this.#current.set(name, entries);
    else this.#current.delete(name);
  }
}

/** Returns the owner of a route. No node's owner has this name: names of nodes have no slash. */
function routeOwner(network: string): Owner {
  return ownerOf('peer', 'route', network);
}
