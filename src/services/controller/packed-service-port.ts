import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { type PackedIntent, packIntent, unpackIntent } from '../compile/packed-intent.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';

/** One port of a Service in one family, as it is served. */
export interface ServedPort {
  /** Created on each access, like the groups. */
  readonly intent: ServiceIntent;
  /** Group numbers, by the groups' names within the port. */
  readonly groups: ReadonlyMap<string, number>;
}

/** Name of the only group of most ports. */
const usualGroup = 'cluster/0';

/** Served port that is stored packed and created on access. */
export class PackedServicePort implements ServedPort {
  /** Number of the usual group if there is no other; otherwise names and numbers, alternating. */
  readonly #groups: number | readonly (string | number)[];
  readonly #packed: PackedIntent;

  constructor(intent: ServiceIntent, groups: ReadonlyMap<string, number>) {
    const usual = groups.get(usualGroup);
    this.#groups = usual !== undefined && groups.size === 1 ? usual : [...groups].flat();
    this.#packed = packIntent(intent);
  }

  get groups(): ReadonlyMap<string, number> {
    if (typeof this.#groups === 'number') return new Map([[usualGroup, this.#groups]]);
    const groups = new Map<string, number>();
    for (let at = 0; at < this.#groups.length; at += 2) groups.set(String(this.#groups[at]), Number(this.#groups[at + 1]));
    return groups;
  }

  get intent(): ServiceIntent {
    return unpackIntent(this.#packed);
  }
}

const none: ReadonlyMap<Owner, ServedPort> = new Map();

/** Ports of each Service by owner. Most Services have one, and there are many: a map of one is large. */
export class PortsOfServices {
  readonly #ports = new Map<string, readonly [Owner, ServedPort] | ReadonlyMap<Owner, ServedPort>>();

  /** Number of Services with ports. */
  get size(): number {
    return this.#ports.size;
  }

  has(service: string): boolean {
    return this.#ports.has(service);
  }

  /** Number of ports of a Service, in all families. */
  countOf(service: string): number {
    const ports = this.#ports.get(service);
    return ports instanceof Map ? ports.size : ports === undefined ? 0 : 1;
  }

  of(service: string): ReadonlyMap<Owner, ServedPort> {
    const ports = this.#ports.get(service);
    if (ports === undefined) return none;
    return ports instanceof Map ? ports : new Map([ports as readonly [Owner, ServedPort]]);
  }

  /** Replaces the ports of a Service. */
  set(service: string, ports: ReadonlyMap<Owner, ServedPort>): void {
    const [first] = ports;
    if (first === undefined) this.#ports.delete(service);
    else this.#ports.set(service, ports.size === 1 ? first : ports);
  }

  *all(): Generator<[Owner, ServedPort]> {
    for (const service of this.#ports.keys()) yield* this.of(service);
  }
}
