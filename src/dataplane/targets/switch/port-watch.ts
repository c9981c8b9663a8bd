import { SeineError } from '../../../base/errors/seine-error.ts';
import type { SwitchDatabase } from './switch-database.ts';

type InterfaceRow = NonNullable<ReturnType<SwitchDatabase['tables']['Interface']['get']>>;

/** Lets callers wait until ovs-vswitchd has added a port for an interface: the result is in the interface's row. */
export class PortWatch {
  readonly #database: SwitchDatabase;
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Listens until `signal`. */
  constructor(database: SwitchDatabase, signal: AbortSignal) {
    this.#database = database;
    database.onChange((changes) => {
      for (const change of changes) {
        if (change.table !== 'Interface') continue;
        const name = change.after?.name ?? change.before?.name;
        if (name !== undefined) for (const wake of this.#waiting.get(name) ?? []) wake();
      }
    }, signal);
  }

  /** Returns the port number of an interface; `undefined` while it has none. */
  ofPort(name: string): number | undefined {
    return this.#database.tables.Interface.find('name', name)?.ofport;
  }

  /** Reports whether OVSDB has an interface of this name. */
  isKnown(name: string): boolean {
    return this.#database.tables.Interface.find('name', name) !== undefined;
  }

  /**
   * Waits until ovs-vswitchd has given the interface the requested port number.
   *
   * @throws SeineError `REFUSED` if it gave another one, or cannot open the interface; `CANCELLED` if `signal` comes first
   */
  async whenPlugged(name: string, wantedOfPort: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const row = this.#database.tables.Interface.find('name', name);
      if (row && isPlugged(row, wantedOfPort)) return;
      if (signal.aborted) throw new SeineError('CANCELLED', `waiting for ovs-vswitchd to add port ${name}`, { cause: signal.reason });
      await this.#changed(name, signal);
    }
  }

  #changed(name: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(name) ?? new Set();
      const wake = (): void => {
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting.delete(name);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.set(name, waiting.add(wake));
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}

/** @throws SeineError `REFUSED` if ovs-vswitchd reports an error or another number */
function isPlugged({ name, ofport, ofport_request: requested, error }: InterfaceRow, wanted: number): boolean {
  // The row, and its error, may still be those of a previous interface of this name.
  if (requested !== wanted) return false;
  if (error !== undefined && error !== '') throw new SeineError('REFUSED', `ovs-vswitchd cannot add port ${name}: ${error}`);
  if (ofport === undefined) return false;
  if (ofport !== wanted) throw new SeineError('REFUSED', `ovs-vswitchd assigned number ${ofport} to port ${name} instead of ${wanted}`);
  return true;
}
