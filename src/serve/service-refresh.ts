import type { Owner } from '../pipeline/cookie.ts';
import type { ServiceIntent } from '../proxy/service-intent.ts';
import type { ServedPort } from './kept-port.ts';

/** A Service that is compared: what was served of it, what is from now on, and what of it is not served. */
export interface Refresh {
  readonly before: ReadonlyMap<Owner, ServedPort>;
  readonly after: Map<Owner, ServedPort>;
  readonly intents: Map<Owner, ServiceIntent>;
  /** Dropped already. */
  readonly failed: Set<Owner>;
  readonly objections: Set<string>;
}

/** Objections kept of one Service: it may have one for each of thousands of ports. */
const OBJECTIONS_MAX = 20;

export function addObjection(objections: Set<string>, objection: string): void {
  if (objections.size < OBJECTIONS_MAX) objections.add(objection);
}
