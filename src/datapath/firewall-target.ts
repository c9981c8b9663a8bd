import { createHash } from 'node:crypto';
import { type Nftables, nftName } from '../netlink/nftables.ts';
import type { Plan, Target } from './target.ts';

/** A whole table of nftables of family `inet`, as the body of its `table … { }` block. */
export type FirewallKey = `table/${string}`;

/**
 * Tables of the node's packet filter, each replaced as a whole in one transaction: no packet meets half of it.
 *
 * nft prints rules otherwise than they were written, so a table is known by what it looked like right after we wrote it.
 * After a restart of the agent that is forgotten, and the table is written once more; connections do not notice.
 */
export class FirewallTarget implements Target<FirewallKey, string> {
  readonly #nftables: Pick<Nftables, 'listTable' | 'runOffThread'>;
  readonly #tables: readonly string[];
  /** Resolves when what is being written is written, or refused. */
  #applying: Promise<void> | undefined;
  readonly #written = new Map<string, { readonly body: string; readonly fingerprint: string }>();

  /** @param tables all names that may ever be ours */
  constructor(nftables: Pick<Nftables, 'listTable' | 'runOffThread'>, tables: readonly string[]) {
    this.#nftables = nftables;
    this.#tables = tables;
  }

  async observe(): Promise<Map<FirewallKey, string>> {
    while (this.#applying !== undefined) await this.#applying;
    const held = new Map<FirewallKey, string>();
    for (const table of this.#tables) {
      const fingerprint = this.#fingerprint(table);
      if (fingerprint === undefined) continue;
      const written = this.#written.get(table);
      held.set(`table/${table}`, written?.fingerprint === fingerprint ? written.body : '');
    }
    return held;
  }

  async apply({ put, remove }: Plan<FirewallKey, string>): Promise<void> {
    const commands: string[] = [];
    for (const key of remove) commands.push(...withoutTable(nameIn(key)));
    for (const [key, body] of put) commands.push(...withoutTable(nameIn(key)), `table inet ${nftName(nameIn(key))} {\n${body}\n}`);
    await this.#run(commands.join('\n'));
    for (const key of remove) this.#written.delete(nameIn(key));
    for (const [key, body] of put) this.#written.set(nameIn(key), { body, fingerprint: this.#fingerprint(nameIn(key)) ?? '' });
  }

  /** The library serves one caller at a time, and whoever looks at the node may come at any time. */
  async #run(commands: string): Promise<void> {
    const running = this.#nftables.runOffThread(commands);
    const ended = () => (this.#applying = undefined);
    this.#applying = running.then(ended, ended);
    await running;
  }

  #fingerprint(table: string): string | undefined {
    const objects = this.#nftables.listTable('inet', table);
    return objects && createHash('sha256').update(JSON.stringify(objects, withoutNoise)).digest('hex');
  }
}

/** `add` first, so that the delete is fine where there was none. */
function withoutTable(table: string): string[] {
  return [`add table inet ${nftName(table)}`, `delete table inet ${nftName(table)}`];
}

function nameIn(key: FirewallKey): string {
  return key.slice('table/'.length);
}

/** Counters count and handles differ from one writing to the next. */
function withoutNoise(key: string, value: unknown): unknown {
  return key === 'packets' || key === 'bytes' || key === 'handle' ? undefined : value;
}
