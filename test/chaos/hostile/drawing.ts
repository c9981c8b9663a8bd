import type { ApiObject } from '../api.ts';
import type { Random } from '../random.ts';
import type { ActorName } from './actors.ts';
import type { ForeignAddress } from './places.ts';

/** Input of a draw. */
export interface Drawing {
  readonly random: Random;
  /** Addresses that do not belong to the attackers. */
  readonly foreign: readonly ForeignAddress[];
  /** Node ports of the victim. */
  readonly nodePortsTaken: readonly number[];
  readonly nodes: readonly string[];
  /** Existing objects of the attackers, by plural. */
  readonly theirs: Readonly<Record<string, readonly ApiObject[]>>;
  /** Pods that are bound to the rogue Node, the victim's among them. */
  readonly onRogue: readonly ApiObject[];
}

/** A drawn write of an actor. */
export interface HostileWrite {
  readonly actor: ActorName;
  readonly verb: 'create' | 'patch' | 'delete' | 'patch status';
  readonly plural: 'services' | 'endpointslices' | 'networkpolicies' | 'pods' | 'nodes';
  /** The object to create or to change. */
  readonly object: ApiObject;
  /** A merge patch. */
  readonly change?: object;
}

/** Texts of a write that look like addresses. */
export function addressesIn(value: unknown): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [, address = ''] of JSON.stringify(value).matchAll(/"([0-9a-fA-F:.]{3,45})(?:\/\d{1,3})?"/g))
    if (address.includes(':') || address.split('.').length === 4) found.add(address);
  return found;
}

const shownMost = 8;

/** An object in readable form: of each long list the first members, and their number. */
export function abridged(value: unknown): unknown {
  if (Array.isArray(value)) {
    const shown = value.slice(0, shownMost).map(abridged);
    return value.length > shownMost ? [...shown, `and ${value.length - shownMost} more`] : shown;
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  const shown = entries.slice(0, 3 * shownMost).map(([key, each]) => [key, abridged(each)]);
  return Object.fromEntries(entries.length > shown.length ? [...shown, ['…', `and ${entries.length - shown.length} more`]] : shown);
}
