import { compilePeer, type PeerIntent } from '../connectivity/compile-peer.ts';
import { familiesOf, type NodeEnvironment } from '../connectivity/environment.ts';
import type { NodeDatapath } from '../datapath/node-datapath.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Peer, PeerSource } from '../kube/peer-source.ts';
import type { Log } from '../log/log.ts';
import { type Cidr, parseCidr } from '../net/ip.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { type AddressClaim, AddressClaims, type ReservedRange } from './address-claims.ts';
import { transportOf } from './node-environment.ts';
import { Objections } from './objections.ts';
import { alone } from './reserved-ranges.ts';

export interface PeersOptions {
  readonly source: PeerSource;
  readonly datapath: NodeDatapath;
  readonly environment: NodeEnvironment;
  readonly reserved: readonly ReservedRange[];
  readonly log: Log;
}

/**
 * Keeps what this node wants for each other node in step with the peer source, one peer at a time. What a Node object claims and
 * cannot have is left out, and said.
 */
export class Peers {
  /** By the name of the node. */
  readonly objections: Objections;
  readonly #options: PeersOptions;
  readonly #claims: AddressClaims;

  constructor(options: PeersOptions) {
    this.#options = options;
    this.#claims = new AddressClaims(options.reserved);
    this.objections = new Objections('Node', options.log);
  }

  /** Wants what is known now and follows changes. @returns a function that ends it */
  follow(): () => void {
    const { source } = this.#options;
    this.#refresh([...source.peers()].map(({ name }) => name));
    return source.subscribe((names) => this.#refresh(names));
  }

  /** The other node whose addresses these are in part, in words for people. */
  claimantOf(range: Cidr): string | undefined {
    return this.#claims.claimantOf(range);
  }

  #refresh(names: Iterable<string>): void {
    const concerned = new Set(names);
    for (const name of [...concerned]) {
      const peer = this.#options.source.get(name);
      for (const other of this.#claims.set(name, peer ? this.#claimsOf(peer) : [])) concerned.add(other);
    }
    for (const name of concerned) this.#want(name);
  }

  /** One Node object that makes no sense must not end the agent, which serves all others. */
  #want(name: string): void {
    const { source, datapath, environment } = this.#options;
    const owner = ownerOf('peer', name);
    const peer = source.get(name);
    try {
      if (peer) datapath.want(owner, compilePeer(this.#intent(peer), environment));
      else datapath.forget(owner);
      this.objections.set(name, peer ? this.#objectionsTo(peer) : []);
    } catch (thrown) {
      datapath.forget(owner);
      this.objections.set(name, [SeineError.from(thrown, `node ${name}`).message]);
    }
  }

  #intent({ name, podCidrs, transport, since = '' }: Peer): PeerIntent {
    const isFine = (use: AddressClaim['use'], range: Cidr): boolean =>
      this.#claims.objection({ node: name, since, use, range }) === undefined;
    return {
      name,
      podCidrs: podCidrs.map(parseCidr).filter((range) => isFine('pods', range)),
      transport: transportOf(transport).filter((ip) => isFine('tunnel', alone(ip))),
    };
  }

  #objectionsTo(peer: Peer): readonly string[] {
    return this.#claimsOf(peer).flatMap((claim) => {
      const why = this.#claims.objection(claim);
      return why === undefined ? [] : [`${claim.use === 'pods' ? 'pod network' : 'tunnel address'} ${claim.range.text} ${why}`];
    });
  }

  /** Of the families that this node has: the others' are nothing to it. */
  #claimsOf({ name: node, podCidrs, transport, since = '' }: Peer): readonly AddressClaim[] {
    const families = familiesOf(this.#options.environment);
    return [
      ...podCidrs
        .map(parseCidr)
        .filter(({ family }) => families.includes(family))
        .map((range): AddressClaim => ({ node, since, use: 'pods', range })),
      ...transportOf(transport).map((ip): AddressClaim => ({ node, since, use: 'tunnel', range: alone(ip) })),
    ];
  }
}
