import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import type { ServedPort } from './packed-service-port.ts';

/** Time of a Service's event, and times when the objects changed. */
export interface Arrival {
  /** Time of the oldest waiting event (`performance.now()`). */
  readonly atMs: number;
  /** Milliseconds since the epoch, without duplicates. */
  readonly triggeredMs: readonly number[];
}

/** Result of comparing a Service, with or without a difference. */
export interface ServiceResult {
  readonly key: string;
  /** Undefined for a Service that was deleted. */
  readonly service: Service | undefined;
  readonly slices: readonly EndpointSlice[];
  /** Ports of it that are served from now on. */
  readonly ports: ReadonlyMap<Owner, ServedPort>;
  /** Parts that are not served as the Service specifies, one sentence each. */
  readonly objections: readonly string[];
}

/** Ports of a Service whose bridge entries changed. A Service of many ports has several changes, one after another. */
export interface ServiceChange {
  readonly key: string;
  /** Undefined for a Service that was deleted. */
  readonly service: Service | undefined;
  readonly ports: readonly ChangedPort[];
  /** True if other ports of the Service follow. */
  readonly hasMore: boolean;
  /** `start`: found when the agent started, which need not be new. */
  readonly occasion: 'start' | 'news';
  readonly arrival: Arrival;
}

/** Effect of serving other than flows, groups, routes and elements. Called synchronously; must not throw. */
export interface ServiceSubscriber {
  compared?(result: ServiceResult): void;
  /** @param acknowledged resolves when OVS has the change; rejects only when the agent stops */
  changed?(change: ServiceChange, acknowledged: Promise<void>): void;
}

/** One changed port. */
interface ChangedPort {
  readonly owner: Owner;
  /** Undefined if the port is new. */
  readonly was: ServiceIntent | undefined;
  /** Undefined if the port is no longer served. */
  readonly is: ServiceIntent | undefined;
}

/** Maximum number of ports in one change. */
const PORTS_AT_ONCE = 100;

/**
 * Ports of a Service that was compared, in the lists of one change each: those that are removed or remain come first.
 *
 * @param after ports of the Service served from now on; the intents of `before` are unpacked
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
