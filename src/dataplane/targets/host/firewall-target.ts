import { createHash } from 'node:crypto';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { elementChanges, type NftElement, readElements } from '../../../netlink/nftables/nft-elements.ts';
import { type Nftables, nftName } from '../../../netlink/nftables/nftables.ts';
import { frameOfBody, frameOfListing, type TableFrame } from '../../../netlink/nftables/table-frame.ts';
import type { Plan, Target } from '../../reconcile/target.ts';

/**
 * Table of nftables of family `inet`, with the body of its `table … { }` block as value; or one element of a set or map of such a table,
 * `element/TABLE/SET/KEY`, with the map's value, or the empty string for a set.
 */
export type FirewallKey = `table/${string}` | `element/${string}/${string}/${string}`;

/** @param key as `nftText` writes it, or `readElements` reads it */
export function elementKey(table: string, set: string, key: string): FirewallKey {
  return `element/${table}/${set}/${key}`;
}

/** Elements of a table, by set and key. */
type Elements = Map<string, Map<string, string>>;

/** Number of elements above which a table is listed off the main thread; listing a smaller one takes a few milliseconds. */
const MANY_ELEMENTS = 1_000;

/** Reports tables whose rules nft refused to replace in place: they are replaced with their sets, see {@link FirewallTarget}. */
type NotInPlace = (tables: readonly string[], refusal: SeineError) => void;

type TargetNftables = Pick<Nftables, 'listTable' | 'listTableOffThread' | 'runOffThread'>;

interface PlacedElement {
  readonly table: string;
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Target for the node's nftables tables. The rules of each are replaced in one transaction: no packet sees a part of them. Elements of sets
 * and maps are added and deleted one by one, and stay when rules are replaced.
 *
 * Sets stay as well, unless they are declared differently: for about a millisecond after a transaction the kernel may not find the elements
 * of a set that came with it. A packet between pods would then be taken for one to the outside, and its connection would be translated.
 *
 * nft prints rules differently from how they were written, so a table is compared with the listing taken right after the write. A restart
 * of the agent loses that listing, and the rules are written again; connections are not affected. A body declares its sets without elements:
 * an element of such a table that no owner wants is removed.
 */
export class FirewallTarget implements Target<FirewallKey, string> {
  readonly #nftables: TargetNftables;
  readonly #tables: readonly string[];
  readonly #notInPlace: NotInPlace;
  /** Resolves when the last use of nftables has ended: the library serves one caller at a time, and observers may call at any time. */
  #ended: Promise<unknown> = Promise.resolve();
  readonly #written = new Map<string, { readonly body: string; readonly fingerprint: string }>();
  /** Elements last observed or written, by table. After a failure the caller observes. */
  readonly #elements = new Map<string, Elements>();
  /** Frames last observed or written; none of a table that has to be replaced as a whole. */
  readonly #frames = new Map<string, TableFrame>();

  /**
   * @param nftables not shared with other users
   * @param tables all names that may belong to Seine
   */
  constructor(nftables: TargetNftables, tables: readonly string[], notInPlace: NotInPlace = () => undefined) {
    this.#nftables = nftables;
    this.#tables = tables;
    this.#notInPlace = notInPlace;
  }

  observe(): Promise<Map<FirewallKey, string>> {
    return this.#alone(() => this.#observe());
  }

  apply(plan: Plan<FirewallKey, string>): Promise<void> {
    return this.#alone(() => this.#apply(plan));
  }

  async #observe(): Promise<Map<FirewallKey, string>> {
    const held = new Map<FirewallKey, string>();
    for (const table of this.#tables) {
      const objects = await this.#list(table);
      const elements = elementsIn(objects ?? []);
      this.#elements.set(table, elements);
      this.#noteFrame(table, objects);
      if (objects === undefined) continue;
      const written = this.#written.get(table);
      held.set(`table/${table}`, written?.fingerprint === fingerprintOf(objects) ? written.body : '');
      for (const [set, ofSet] of elements) for (const [key, value] of ofSet) held.set(elementKey(table, set, key), value);
    }
    return held;
  }

  async #apply({ put, remove }: Plan<FirewallKey, string>): Promise<void> {
    const bodies = new Map([...put].flatMap(([key, body]) => (isTable(key) ? [[tableOf(key), body] as const] : [])));
    const dropped = [...remove].filter(isTable).map(tableOf);
    // An element that no longer exists cannot be deleted: nft of Debian 12 has no `destroy`.
    const stays = ({ table, set, key }: PlacedElement): boolean =>
      !dropped.includes(table) && declares(bodies.get(table), set) && this.#elements.get(table)?.get(set)?.has(key) === true;
    const gone = [...remove].flatMap((key) => placed(key, '')).filter(stays);
    const come = [...put].flatMap(([key, value]) => placed(key, value));
    const changes = setsOf([...gone, ...come]).map((set) => this.#change(set, gone, come));
    const transaction = (replaced: (table: string, body: string) => readonly string[]): string =>
      [...dropped.flatMap(withoutTable), ...[...bodies].flatMap(([table, body]) => replaced(table, body)), ...changes].join('\n');
    await this.#run(bodies, transaction);
    for (const table of dropped) this.#elements.delete(table);
    for (const [table, body] of bodies) this.#keep(table, body);
    for (const { table, set, key } of gone) this.#elements.get(table)?.get(set)?.delete(key);
    for (const { table, set, key, value } of come) this.#setOf(table, set).set(key, value);
    for (const table of dropped) {
      this.#written.delete(table);
      this.#frames.delete(table);
    }
    for (const [table, body] of bodies) {
      const objects = await this.#list(table);
      this.#noteFrame(table, objects);
      this.#written.set(table, { body, fingerprint: fingerprintOf(objects ?? []) });
    }
  }

  /**
   * Replaces rules only, where sets are declared as before. nft refuses this if a chain has another hook; then nothing was changed, and the
   * tables are replaced as a whole. Any other failure leaves it open what was changed: the caller observes.
   */
  async #run(
    bodies: ReadonlyMap<string, string>,
    transaction: (replaced: (table: string, body: string) => readonly string[]) => string,
  ): Promise<void> {
    const inPlace = new Map(
      [...bodies].flatMap(([table, body]) => {
        const commands = this.#withNewRules(table, body);
        return commands ? [[table, commands] as const] : [];
      }),
    );
    try {
      await this.#nftables.runOffThread(transaction((table, body) => inPlace.get(table) ?? this.#replaced(table, body)));
    } catch (thrown) {
      if (inPlace.size === 0 || !(thrown instanceof SeineError) || thrown.code !== 'REFUSED') throw thrown;
      this.#notInPlace([...inPlace.keys()], thrown);
      await this.#nftables.runOffThread(transaction((table, body) => this.#replaced(table, body)));
    }
  }

  #noteFrame(table: string, objects: readonly unknown[] | undefined): void {
    const frame = objects && frameOfListing(objects);
    if (frame) this.#frames.set(table, frame);
    else this.#frames.delete(table);
  }

  /** Returns commands that replace the rules of a table and keep its sets; undefined if the body declares others. */
  #withNewRules(table: string, body: string): readonly string[] | undefined {
    const [known, wanted] = [this.#frames.get(table), frameOfBody(body)];
    if (!known || !wanted || known.declarations !== wanted.declarations) return undefined;
    const gone = [...known.chains].filter((chain) => !wanted.chains.has(chain));
    return [
      `flush table inet ${nftName(table)}`,
      ...gone.map((chain) => `delete chain inet ${nftName(table)} ${nftName(chain)}`),
      `table inet ${nftName(table)} {\n${body}\n}`,
    ];
  }

  /** Existing elements move into the new table; those to be removed are deleted as in any other table. */
  #replaced(table: string, body: string): string[] {
    const commands = [...withoutTable(table), `table inet ${nftName(table)} {\n${body}\n}`];
    for (const [name, elements] of this.#elements.get(table) ?? []) {
      const add = [...elements].map(([key, value]) => asElement(key, value));
      if (declares(body, name)) commands.push(elementChanges({ family: 'inet', table, name }, { remove: [], add }));
    }
    return commands;
  }

  #keep(table: string, body: string): void {
    const elements = this.#elements.get(table);
    for (const set of elements?.keys() ?? []) if (!declares(body, set)) elements?.delete(set);
  }

  #change(set: Pick<PlacedElement, 'table' | 'set'>, gone: readonly PlacedElement[], come: readonly PlacedElement[]): string {
    const here = (element: PlacedElement): boolean => element.table === set.table && element.set === set.set;
    const held = this.#elements.get(set.table)?.get(set.set);
    const add = come.filter(here);
    const changed = add.filter(({ key, value }) => held?.has(key) && held.get(key) !== value);
    const elements = ({ key, value }: PlacedElement): NftElement => asElement(key, value);
    return elementChanges(
      { family: 'inet', table: set.table, name: set.set },
      { remove: [...gone.filter(here), ...changed].map(elements), add: add.map(elements) },
    );
  }

  #setOf(table: string, set: string): Map<string, string> {
    const elements = this.#elements.get(table) ?? new Map<string, Map<string, string>>();
    const ofSet = elements.get(set) ?? new Map<string, string>();
    this.#elements.set(table, elements.set(set, ofSet));
    return ofSet;
  }

  async #list(table: string): Promise<unknown[] | undefined> {
    let elements = 0;
    for (const ofSet of this.#elements.get(table)?.values() ?? []) elements += ofSet.size;
    return elements > MANY_ELEMENTS ? await this.#nftables.listTableOffThread('inet', table) : this.#nftables.listTable('inet', table);
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#ended.then(work);
    this.#ended = turn.catch(() => undefined); // the caller handles the error
    return turn;
  }
}

export function isTable(key: FirewallKey): boolean {
  return key.startsWith('table/');
}

/** @param body of the table, if it is replaced; otherwise its declarations are unchanged */
function declares(body: string | undefined, set: string): boolean {
  return body === undefined || new RegExp(`^\\s*(?:set|map) ${nftName(set).replaceAll('.', '\\.')} `, 'm').test(body);
}

/** Returns the place of an element; empty for a table. */
function placed(key: FirewallKey, value: string): PlacedElement[] {
  if (isTable(key)) return [];
  const [, table = '', set = '', ...rest] = key.split('/');
  return [{ table, set, key: rest.join('/'), value }];
}

function setsOf(elements: readonly PlacedElement[]): readonly PlacedElement[] {
  return [...new Map(elements.map((element) => [`${element.table}/${element.set}`, element])).values()];
}

function asElement(key: string, value: string): NftElement {
  return value === '' ? { key } : { key, value };
}

function elementsIn(objects: readonly unknown[]): Elements {
  const found: Elements = new Map();
  for (const name of setNames(objects))
    found.set(name, new Map((readElements(objects, name) ?? []).map(({ key, value = '' }) => [key, value])));
  return found;
}

function setNames(objects: readonly unknown[]): string[] {
  return objects.flatMap((object) => {
    const { set, map } = object as { readonly set?: { readonly name?: unknown }; readonly map?: { readonly name?: unknown } };
    const name = (set ?? map)?.name;
    return typeof name === 'string' ? [name] : [];
  });
}

/** Commands that delete a table. `add` comes first, so that the deletion succeeds if there was none. */
function withoutTable(table: string): string[] {
  return [`add table inet ${nftName(table)}`, `delete table inet ${nftName(table)}`];
}

function tableOf(key: FirewallKey): string {
  return key.slice('table/'.length);
}

/** Returns a fingerprint of everything except elements. */
function fingerprintOf(objects: readonly unknown[]): string {
  const frame = objects.map((object) => {
    const { set, map } = object as { readonly set?: object; readonly map?: object };
    return set ? { set: { ...set, elem: undefined } } : map ? { map: { ...map, elem: undefined } } : object;
  });
  return createHash('sha256').update(JSON.stringify(frame, withoutNoise)).digest('hex');
}

/** Drops counters and handles, which differ from one write to the next. */
function withoutNoise(key: string, value: unknown): unknown {
  return key === 'packets' || key === 'bytes' || key === 'handle' ? undefined : value;
}
