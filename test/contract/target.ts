import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { Reconciler } from '../../src/dataplane/reconcile/reconciler.ts';
import type { Target } from '../../src/dataplane/reconcile/target.ts';

/** A target whose backend a test may break. */
export interface Specimen<K extends string, V> {
  readonly target: Target<K, V>;
  readonly equal: (a: V, b: V) => boolean;
  /** Entries that are added first and never removed: others depend on them. */
  readonly base: ReadonlyMap<K, V>;
  /** At least three, which may be put and removed together; not those of `base`. */
  readonly entries: ReadonlyMap<K, V>;
  /** Other values for some keys of `entries`. */
  readonly changes: ReadonlyMap<K, V>;
  /** Entries that the target always rejects, with `base` present. */
  readonly impossible: ReadonlyMap<K, V>;
  /** Entries that depend on others; absent if no entry does. None of them is in `base` or `entries`. */
  readonly dependence?: { readonly needed: ReadonlyMap<K, V>; readonly dependent: ReadonlyMap<K, V> };
  /** Foreign entries, as text; compared before and after. */
  foreign(): string;
  /** Another process removes or changes some of `entries`, while all of them are present; returns when that is visible. */
  disturb(): Promise<void>;
  /** Another process removes everything, `base` included; returns when that is visible. */
  wipe(): Promise<void>;
  /** Makes the target unreachable, with all its entries, and then reachable again. */
  die(): Promise<void>;
  revive(): Promise<void>;
  close(): Promise<void>;
}

export interface Promised {
  /** `all`: a rejected plan changes nothing. `parts`: it may be applied in part. */
  readonly refusal: 'all' | 'parts';
  /** `enforced`: an entry without an entry that it depends on is rejected, and is removed with it. The specimen has `dependence`. */
  readonly dependence?: 'enforced';
}

const patience = (): AbortSignal => AbortSignal.timeout(20_000);

/** Contract of every `Target`, and of a `Reconciler` with it. */
export function targetContract<K extends string, V>(
  name: string,
  open: () => Promise<Specimen<K, V>>,
  { refusal, dependence }: Promised,
): void {
  describe(`${name} as a target`, () => {
    let specimen: Specimen<K, V>;
    beforeAll(async () => {
      specimen = await open();
    });
    afterAll(() => specimen.close());

    const put = (entries: ReadonlyMap<K, V>): Promise<void> => specimen.target.apply({ put: entries, remove: new Set() }, patience());
    const remove = (keys: Iterable<K>): Promise<void> => specimen.target.apply({ put: new Map(), remove: new Set(keys) }, patience());
    /** Fails with the keys whose values differ, are missing, or are unexpected. */
    const expectHeld = async (...parts: readonly ReadonlyMap<K, V>[]): Promise<void> => {
      const wanted = new Map(parts.flatMap((part) => [...part]));
      expect(differences(await specimen.target.observe(patience()), wanted, specimen.equal)).toEqual([]);
    };

    it('shows exactly the added entries', async () => {
      const { base, entries } = specimen;
      await put(base);
      await expectHeld(base);
      await put(entries);
      await expectHeld(base, entries);
    });

    it('accepts the same again, and other values for present entries', async () => {
      const { base, entries, changes } = specimen;
      await put(entries);
      await expectHeld(base, entries);
      await put(changes);
      await expectHeld(base, entries, changes);
      await put(entries);
      await expectHeld(base, entries);
    });

    it('adds and removes in one plan, and ignores missing entries', async () => {
      const { base, entries, target } = specimen;
      const [first] = entries.keys();
      const rest = new Map([...entries].filter(([key]) => key !== first));
      await remove(rest.keys());
      await expectHeld(base, new Map([...entries].filter(([key]) => key === first)));
      await target.apply({ put: rest, remove: new Set(first === undefined ? [] : [first]) }, patience());
      await expectHeld(base, rest);
      await remove(entries.keys());
      await expectHeld(base);
      await remove(entries.keys());
      await expectHeld(base);
    });

    it('rejects a plan with an impossible entry', async () => {
      const { base, entries, impossible } = specimen;
      await expect(put(new Map([...entries, ...impossible]))).rejects.toMatchObject({ code: 'REFUSED' });
      if (refusal === 'parts') await remove(entries.keys());
      await expectHeld(base);
    });

    const refusesDangling = async (): Promise<void> => {
      const { base, dependence: { needed, dependent } = { needed: new Map<K, V>(), dependent: new Map<K, V>() } } = specimen;
      expect([needed.size, dependent.size]).toEqual([1, 1]);
      await expect(put(dependent)).rejects.toMatchObject({ code: 'REFUSED' });
      await expectHeld(base);
      await put(new Map([...dependent, ...needed]));
      await expectHeld(base, dependent, needed);
      await remove(needed.keys());
      await expectHeld(base);
    };
    if (dependence === 'enforced') it('rejects an entry without one that it needs, and removes it together with that one', refusesDangling);

    it('neither shows nor touches foreign entries', async () => {
      const { base, entries } = specimen;
      const before = specimen.foreign();
      expect(before).not.toBe('');
      await put(entries);
      await expectHeld(base, entries);
      await remove(entries.keys());
      expect(specimen.foreign()).toBe(before);
    });

    it('never counts as refusing while it is unreachable', async () => {
      const { base, entries } = specimen;
      await specimen.die();
      const failed = specimen.target.apply({ put: entries, remove: new Set() }, AbortSignal.timeout(300));
      await expect(failed).rejects.toMatchObject({ code: expect.stringMatching(/^(UNAVAILABLE|CANCELLED)$/) });
      await specimen.revive();
      await expect.poll(() => put(base).then(() => 'done', String), { timeout: 20_000 }).toBe('done');
      await remove(entries.keys());
      await expectHeld(base);
    });
  });

  describe(`a reconciler of ${name}`, () => {
    let specimen: Specimen<K, V>;
    let keeper: Keeper<K, V>;
    beforeAll(async () => {
      specimen = await open();
      keeper = new Keeper(specimen);
    });
    afterAll(async () => {
      await keeper.close();
      await specimen.close();
    });

    it('applies the entries of several owners, two of them equal', async () => {
      const [first, ...rest] = [...specimen.entries];
      if (!first) throw new Error('a specimen without entries');
      keeper.want('base', specimen.base);
      keeper.want('a', new Map([first, ...rest.filter((_, index) => index % 2 === 0)]));
      keeper.want('b', new Map([first, ...rest.filter((_, index) => index % 2 === 1)]));
      await keeper.expectHeld();
      keeper.want('a', new Map());
      await keeper.expectHeld();
      keeper.want('a', specimen.entries);
      await keeper.expectHeld();
    });

    it('repairs foreign changes, and reports them', async () => {
      keeper.drift.length = 0;
      await specimen.disturb();
      await keeper.expectHeld();
      expect(keeper.drift.length).toBeGreaterThan(0);
    });

    it('restores everything after a wipe', async () => {
      await specimen.wipe();
      await keeper.expectHeld();
    });

    it('restores everything when the target returns', async () => {
      await specimen.die();
      keeper.want('a', specimen.changes);
      keeper.want('b', new Map());
      await specimen.revive();
      await keeper.expectHeld();
      keeper.want('a', specimen.entries);
      await keeper.expectHeld();
      expect(keeper.refused).toEqual([]);
    });

    it('isolates the one owner that the target refuses', async () => {
      keeper.want('a', new Map());
      await keeper.expectHeld();
      keeper.want('poison', specimen.impossible);
      keeper.want('a', specimen.entries);
      await keeper.settled();
      expect(keeper.refused).toEqual(['poison']);
      await expect(keeper.reconciler.realizedFor('poison', 0, patience())).rejects.toMatchObject({ code: 'REFUSED' });
      keeper.want('poison', new Map());
      await keeper.expectHeld();
      expect(keeper.reconciler.failures()).toEqual([]);
    });
  });
}

class Keeper<K extends string, V> {
  readonly desired: DesiredState<K, V>;
  readonly reconciler: Reconciler<K, V>;
  readonly drift: K[] = [];
  readonly refused: string[] = [];
  readonly failures: SeineError[] = [];
  readonly #specimen: Specimen<K, V>;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(specimen: Specimen<K, V>) {
    const { target, equal } = specimen;
    this.#specimen = specimen;
    this.desired = new DesiredState<K, V>({ equal });
    this.reconciler = new Reconciler<K, V>({
      name: 'specimen',
      desired: this.desired,
      target,
      equal,
      batchSize: 50,
      backoffMs: () => 20,
      now: () => performance.now(),
      events: {
        round: () => {},
        failure: (error) => this.failures.push(error),
        refused: (owner) => this.refused.push(owner),
        drift: (keys) => this.drift.push(...keys),
        repaired: () => {},
      },
    });
    this.reconciler.allowRemovals();
    this.#running = this.reconciler.run(this.#stop.signal);
  }

  want(owner: string, wanted: ReadonlyMap<K, V>): void {
    this.desired.set(owner, wanted);
    this.reconciler.poke();
  }

  /** Waits until the target was observed again and has everything that it does not reject. */
  async settled(): Promise<void> {
    await this.reconciler.confirmed(patience());
  }

  async expectHeld(): Promise<void> {
    await this.settled();
    const wanted = new Map(Array.from(this.desired.keys(), (key) => [key, this.desired.wanted(key) as V]));
    expect(differences(await this.#specimen.target.observe(patience()), wanted, this.#specimen.equal)).toEqual([]);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

function differences<K extends string, V>(held: ReadonlyMap<K, V>, wanted: ReadonlyMap<K, V>, equal: (a: V, b: V) => boolean): string[] {
  const keys = new Set([...wanted.keys(), ...held.keys()]);
  return [...keys].flatMap((key) => {
    const [is, shall] = [held.get(key), wanted.get(key)];
    if (is === undefined) return [`missing: ${readable(key)}`];
    if (shall === undefined) return [`too much: ${readable(key)} ${readable(is)}`];
    return equal(is, shall) ? [] : [`differs: ${readable(key)} is ${readable(is)} and not ${readable(shall)}`];
  });
}

/** Entries of the bridge are bytes. */
function readable(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part));
  return /^[\x20-\x7e\n]*$/.test(text) ? text : Buffer.from(text, 'latin1').toString('hex');
}
