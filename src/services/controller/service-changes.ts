import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import type { ServedPort } from './packed-service-port.ts';

/** When news of a Service came, and what they were made of changed. */
export interface Arrival {
  /** By `performance.now()`: the oldest news that wait. */
  readonly atMs: number;
  /** Milliseconds since the epoch, each once. */
  readonly triggeredMs: readonly number[];
}

/** A Service that was compared with what is wanted of it, whether or not anything differed. */
export interface ServiceResult {
  readonly key: string;
  /** Undefined for a Service that was deleted. */
  readonly service: Service | undefined;
  readonly slices: readonly EndpointSlice[];
  /** What is served of it from now on. */
  readonly ports: ReadonlyMap<Owner, ServedPort>;
  /** What is not served as the Service says, a sentence each. */
  readonly objections: readonly string[];
}

/** Ports of a Service of which the bridge is to hold something else than before. A Service of many ports has several, one after another. */
export interface ServiceChange {
  readonly key: string;
  /** Undefined for a Service that was deleted. */
  readonly service: Service | undefined;
  readonly ports: readonly ChangedPort[];
  /** True if other ports of the Service follow. */
  readonly hasMore: boolean;
  /** `start`: what the agent found when it started, which need not be new. */
  readonly occasion: 'start' | 'news';
  readonly arrival: Arrival;
}

/** An effect of serving beside flows, groups, routes and elements. Called synchronously; must not throw. */
export interface ServiceSubscriber {
  compared?(result: ServiceResult): void;
  /** @param acknowledged resolves when the switch has the change; rejects only when the agent stops */
  changed?(change: ServiceChange, acknowledged: Promise<void>): void;
}

/** One port that a change concerns. */
interface ChangedPort {
  readonly owner: Owner;
  /** Undefined if the port is new. */
  readonly was: ServiceIntent | undefined;
  /** Undefined if the port is no longer served. */
  readonly is: ServiceIntent | undefined;
}

/** Ports that one change has at most. */
const PORTS_AT_ONCE = 100;

/**
 * The ports of a Service that was compared, in the lists of one change each: those that are gone or remain first.
 *
 * @param after what is served of the Service from now on; of `before` the intents are unpacked
 */
export function* changedPorts(
  before: ReadonlyMap<Owner, ServedPort>,
  after: ReadonlyMap<Owner, ServiceIntent>,
): Generator<Pick<ServiceChange, 'ports' | 'hasMore'>> {
  const owners = [...new Set([...before.keys(), ...after.keys()])];
  let at = 0;
  do {
    const ports = owners.slice(at, at + PORTS_AT_ONCE).map((owner) => ({ owner, was: before.get(owner)?.intent, is: after.get(owner) }));
    at += PORTS_AT_ONCE;
    yield { ports, hasMore: at < owners.length };
  } while (at < owners.length);
}
