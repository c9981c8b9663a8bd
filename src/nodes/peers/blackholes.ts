import { CidrUnion } from '../../base/net/cidr-union.ts';
import type { Cidr } from '../../base/net/ip.ts';
import { compileBlackhole } from '../../dataplane/compile/compile-peer.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';

/**
 * Blackhole routes to the networks of all peers that are reached with encryption alone: while the route over the WireGuard device is missing,
 * processes of this node get an error at once, and the default route does not apply. Neighbouring networks share a route.
 */
export class Blackholes {
  readonly #nodeState: Pick<NodeState, 'want' | 'forget'>;
  readonly #networks = new Map<string, readonly Cidr[]>();
  readonly #union = new CidrUnion();
  #routes = new Set<string>();

  constructor(nodeState: Pick<NodeState, 'want' | 'forget'>) {
    this.#nodeState = nodeState;
  }

  /** Replaces the networks of a peer. The routes follow with `wantRoutes`. */
  set(name: string, networks: readonly Cidr[]): void {
    const before = this.#networks.get(name) ?? [];
    for (const network of networks) this.#union.add(network);
    for (const network of before) this.#union.remove(network);
    if (networks.length === 0) this.#networks.delete(name);
    else this.#networks.set(name, networks);
  }

  /** Sets the routes that changed; new ones come first. */
  wantRoutes(): void {
    const before = this.#routes;
    this.#routes = new Set();
    for (const network of this.#union.cover()) {
      this.#routes.add(network.text);
      if (!before.delete(network.text))
        this.#nodeState.want(blackholeOwner(network.text), { ...nothing, routes: [compileBlackhole(network)] });
    }
    for (const gone of before) this.#nodeState.forget(blackholeOwner(gone));
  }
}

/** Returns the owner of a route. No node's owner has this name: names of nodes have no slash. */
function blackholeOwner(network: string): Owner {
  return ownerOf('peer', 'blackhole', network);
}
