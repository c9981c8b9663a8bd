import { createHash } from 'node:crypto';
import { elementChanges, type NftElement, readElements } from '../../../netlink/nftables/nft-elements.ts';
import { type Nftables, nftName } from '../../../netlink/nftables/nftables.ts';
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

type TargetNftables = Pick<Nftables, 'listTable' | 'listTableOffThread' | 'runOffThread'>;

interface PlacedElement {
  readonly table: string;
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Target for the node's nftables tables. Each is replaced as a whole in one transaction: no packet sees a partial table. Elements of sets
 * and maps are added and deleted one by one, and stay when their table is replaced.
 *
 * nft prints rules differently from how they were written, so a table is compared with the listing taken right after the write. A restart
 * of the agent loses that listing, and the table is written again; connections are not affected. A body declares its sets without elements:
 * an element of such a table that no owner wants is removed.
 */
export class FirewallTarget implements Target<FirewallKey, string> {
  readonly #nftables: TargetNftables;
  readonly #tables: readonly string[];
  /** Resolves when the last use of nftables has ended: the library serves one caller at a time, and observers may call at any time. */
  #ended: Promise<unknown> = Promise.resolve();
  readonly #written = new Map<string, { readonly body: string; readonly fingerprint: string }>();
  /** Elements last observed or written, by table. After a failure the caller observes. */
  readonly #elements = new Map<string, Elements>();

  /**
   * @param nftables not shared with other users
   * @param tables all names that may belong to Seine
   */
  constructor(nftables: TargetNftables, tables: readonly string[]) {
    this.#nftables = nftables;
    this.#tables = tables;
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
    const commands: string[] = dropped.flatMap(withoutTable);
    for (const [table, body] of bodies) commands.push(...this.#replaced(table, body));
    for (const set of setsOf([...gone, ...come])) commands.push(this.#change(set, gone, come));
    await this.#nftables.runOffThread(commands.join('\n'));
    for (const table of dropped) this.#elements.delete(table);
    for (const [table, body] of bodies) this.#keep(table, body);
    for (const { table, set, key } of gone) this.#elements.get(table)?.get(set)?.delete(key);
    for (const { table, set, key, value } of come) this.#setOf(table, set).set(key, value);
    for (const table of dropped) this.#written.delete(table);
    for (const [table, body] of bodies) this.#written.set(table, { body, fingerprint: fingerprintOf((await this.#list(table)) ?? []) });
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
