import fc from 'fast-check';
import { expect, it } from 'vitest';
import { modelRuns } from '../../../test/support/model-runs.ts';
import { silentLog } from '../../base/log/log.ts';
import { cidrAddress, parseCidr } from '../../base/net/ip.ts';
import { Ipam } from './ipam.ts';
import type { Lease } from './lease.ts';
import { MemoryJournalStore, type WriteOutcome } from './testing/memory-journal-store.ts';

const never = new AbortController().signal;
const pools = ['10.1.0.0/29', 'fd00::/125'].map(parseCidr).map((cidr) => ({ cidr, gateway: cidrAddress(cidr, 1n) }));

type Operation =
  | { readonly op: 'add'; readonly id: number; readonly attachFails: boolean; readonly killed?: KilledAt | undefined }
  | { readonly op: 'del' | 'vanish'; readonly id: number }
  | { readonly op: 'reclaim' | 'restart' };

/** Point of an ADD at which the agent dies while the host continues. */
type KilledAt = 'handedOver' | 'linked' | 'durable';

const id = fc.integer({ min: 0, max: 7 });
const killed = fc.option(fc.constantFrom<KilledAt>('handedOver', 'linked', 'durable'), { nil: undefined, freq: 9 });
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 9, arbitrary: fc.record({ op: fc.constant('add' as const), id, attachFails: fc.nat(5).map((n) => n === 0), killed }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('del' as const), id }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('vanish' as const), id }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom('reclaim' as const, 'restart' as const) }) },
);
const fate: fc.Arbitrary<WriteOutcome> = fc.oneof(
  { weight: 20, arbitrary: fc.constant('done' as const) },
  { weight: 2, arbitrary: fc.constant('failed' as const) },
  { weight: 2, arbitrary: fc.constant('crash' as const) },
);

/** Node: the IPAM with its disk, and the existing interfaces by address. */
class Node {
  /** Pods by address. An interface outlives its DEL for a while, as in the kernel. */
  readonly interfaces = new Map<string, string>();
  /** Leases that ADD returned and no DEL has released. */
  readonly served = new Map<number, Lease>();
  readonly #fates: WriteOutcome[];
  readonly #cuts: number[];
  #store: MemoryJournalStore;
  #ipam: Ipam | undefined;

  constructor(fates: readonly WriteOutcome[], cuts: readonly number[]) {
    this.#fates = [...fates];
    this.#cuts = [...cuts];
    this.#store = this.#newStore(new Uint8Array());
  }

  async boot(): Promise<void> {
    this.#store = this.#newStore(this.#store.content);
    const isAbsent = async ({ addresses }: Lease) => !addresses.some(({ ip }) => this.interfaces.has(ip.text));
    this.#ipam = await Ipam.open({ store: this.#store, pools, bootId: 'b', isAbsent, quarantinePatienceMs: 0, log: silentLog });
    if (this.#store.dead) return await this.#reboot();
    this.#checkServed();
  }

  async run(step: Operation): Promise<void> {
    switch (step.op) {
      case 'add':
        await this.#add(step);
        break;
      case 'del':
        this.served.delete(step.id);
        this.#here().release(keyOf(step.id));
        break;
      case 'vanish':
        for (const [address, owner] of this.interfaces)
          if (owner === `c${step.id}` && !this.served.has(step.id)) this.interfaces.delete(address);
        break;
      case 'reclaim':
        await this.#here().reclaim(never);
        break;
      case 'restart':
        await this.#here().close();
        if (!this.#store.dead) await this.boot(); // the host may have died during the last write
        break;
    }
    if (this.#store.dead) await this.#reboot();
    this.#checkNoTwo();
  }

  /** Works as in the agent: the interface is made while the lease is being written to disk, and the reply waits for both. */
  async #add({ id: number, attachFails, killed: killedAt }: Extract<Operation, { op: 'add' }>): Promise<void> {
    const ipam = this.#here();
    const leftover = ipam.leaseOf(keyOf(number));
    if (leftover) {
      if (this.served.has(number)) return;
      ipam.release(keyOf(number));
    }
    const written = await ipam.allocate({ ...keyOf(number), netns: '/n', addresses: [] }, never).catch(() => undefined);
    if (!written) return;
    if (killedAt === 'handedOver') return await this.#kill();
    const { lease, durable } = written;
    for (const { ip } of lease.addresses) {
      expect(this.interfaces.get(ip.text), `${ip.text} is allocated to c${number} while it is on an interface`).toBeUndefined();
      if (!attachFails) this.interfaces.set(ip.text, `c${number}`);
    }
    if (killedAt === 'linked') return await this.#kill();
    const isDurable = await durable.then(
      () => true,
      () => false,
    );
    if (this.#store.dead) return;
    if (killedAt === 'durable') return await this.#kill();
    if (attachFails || !isDurable) return ipam.release(keyOf(number));
    ipam.confirm(keyOf(number), { hostIfName: 'v', hostMac: lease.mac, mtu: 1450 });
    this.served.set(number, lease);
  }

  /** Reboots the host; every interface is gone. */
  async #reboot(): Promise<void> {
    this.interfaces.clear();
    await this.boot();
  }

  /** Kills the agent; the next one finds what the kernel has. */
  async #kill(): Promise<void> {
    if (this.#store.dead) return; // the host died first
    this.#store = this.#newStore(Uint8Array.from(this.#store.content));
    await this.boot();
  }

  /** Checks that everything durable at the reply of an ADD exists unchanged after any crash. */
  #checkServed(): void {
    for (const [number, lease] of this.served) {
      const found = this.#here().leaseOf(keyOf(number));
      expect(found?.addresses.map(({ ip }) => ip.text)).toEqual(lease.addresses.map(({ ip }) => ip.text));
    }
  }

  #checkNoTwo(): void {
    const addresses = this.#here()
      .leases()
      .flatMap((lease) => lease.addresses.map(({ ip }) => ip.text));
    expect(new Set(addresses).size).toBe(addresses.length);
    for (const [address, owner] of this.interfaces)
      expect(addresses, `${address} is on the interface of ${owner}, and free`).toContain(address);
  }

  #here(): Ipam {
    if (!this.#ipam) throw new Error('not booted');
    return this.#ipam;
  }

  #newStore(content: Uint8Array): MemoryJournalStore {
    return new MemoryJournalStore(
      content,
      () => this.#fates.shift() ?? 'done',
      (below) => (this.#cuts.shift() ?? 0) % below,
    );
  }
}

function keyOf(number: number) {
  return { network: 'n', containerId: `c${number}`, ifName: 'eth0' };
}

it('a lease stays although the record of the previous one was zeroed, and that one is released', async () => {
  const add = (id: number, attachFails = false): Operation => ({ op: 'add', id, attachFails });
  const node = new Node(['done', 'done', 'done', 'done', 'done', 'done', 'done', 'crash'], [0, 0, 0, 63]);
  await node.boot();
  const steps = [add(0), { op: 'del', id: 0 }, add(0, true), add(0, true), add(0), add(1, true), add(1, true)] as const;
  for (const step of steps) await node.run(step);
});

it("nothing is left of a pod whose ADD failed because of the disk, if the host dies in the agent's last write", async () => {
  const node = new Node(['done', 'done', 'failed', 'crash'], [0, 639]);
  await node.boot();
  for (const step of [{ op: 'add', id: 0, attachFails: false }, { op: 'restart' }] as const) await node.run(step);
  expect([...node.interfaces.keys()]).toEqual([]);
});

it('no two pods share an address and no live one is released, whatever fails and wherever the host dies', async () => {
  const steps = fc.array(operation, { minLength: 10, maxLength: 120, size: 'max' });
  const cuts = fc.array(fc.nat(2000), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(steps, fc.array(fate, { maxLength: 60 }), cuts, async (operations, fates, places) => {
      const node = new Node(fates, places);
      await node.boot();
      for (const step of operations) await node.run(step);
    }),
    { numRuns: modelRuns(600) },
  );
}, 300_000);
