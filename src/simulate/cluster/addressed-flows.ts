import { nothing } from '../../dataplane/desired/host-entries.ts';
import type { InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { addressesOf, type PacketAddress, type PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import { cookieOf, type Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import { type BridgeKey, encodeBridgeEntries } from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { Action } from '../../openflow/actions/action.ts';
import { installedFlow, type NamedFlows } from './flow-layer.ts';

/** Owner whose flows are compiled when a packet may match them. */
export interface AddressedOwner {
  readonly owner: Owner;
  readonly compile: () => readonly Flow[];
}

/** Owners each of whose flows matches only packets with one of the owner's addresses, in a field of `addressesOf`. */
export interface OwnersByAddress {
  /** Returns the owners with one of these addresses. Where two want a flow with the same match, the later one has it. */
  at(addresses: readonly PacketAddress[]): Iterable<AddressedOwner>;
  all(): Iterable<AddressedOwner>;
}

/**
 * Flows of thousands of owners, of which a packet meets those of a few: only these are compiled. A node of 5,000 has 40,000 flows for its
 * peers.
 */
export class AddressedFlows implements NamedFlows {
  readonly #source: OwnersByAddress;
  readonly #compiled = new Map<Owner, ReadonlyMap<BridgeKey, InstalledFlow>>();
  readonly #owners = new Map<bigint, Owner>();

  constructor(source: OwnersByAddress) {
    this.#source = source;
  }

  visit(table: number, visitor: (flow: InstalledFlow) => void, packet?: PacketState): Promise<void> {
    const flows = new Map<BridgeKey, InstalledFlow>();
    for (const owner of packet ? this.#source.at(addressesOf(packet)) : this.#source.all())
      for (const [key, flow] of this.#flowsOf(owner)) if (flow.table === table) flows.set(key, flow);
    for (const flow of flows.values()) visitor(flow);
    return Promise.resolve();
  }

  #flowsOf({ owner, compile }: AddressedOwner): ReadonlyMap<BridgeKey, InstalledFlow> {
    const known = this.#compiled.get(owner);
    if (known) return known;
    const entries = encodeBridgeEntries(owner, { ...nothing, flows: compile() });
    const flows = new Map([...entries].map(([key, value]) => [key, installedFlow(key, value)] as const));
    this.#compiled.set(owner, flows);
    this.#owners.set(cookieOf(owner), owner);
    return flows;
  }

  /** Returns the owner of a flow that was visited. */
  ownerOf(cookie: bigint): Owner | undefined {
    return this.#owners.get(cookie);
  }

  buckets(): Promise<readonly (readonly Action[])[] | undefined> {
    return Promise.resolve(undefined);
  }
}
