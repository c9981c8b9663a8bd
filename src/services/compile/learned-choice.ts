import type { Ip } from '../../base/net/ip.ts';
import {
  answerFor,
  type ClientLocation,
  endpointKey,
  type ServiceAddress,
  type ServiceEndpoint,
  type ServiceIntent,
} from './service-intent.ts';

/** Longest timeout of a flow, a 16-bit number (OpenFlow 1.5.1 `ofp_flow_mod`); the agent enforces longer ones. */
export const longestSwitchTimeout = 65_535;

/** Endpoint of a client with affinity, as recorded in the learned flow. */
export interface LearnedChoice {
  readonly client: Ip;
  /** True if it came through the gateway: from an external client, from the node itself, or from a pod that nftables has translated. */
  readonly byGateway: boolean;
  readonly address: Ip;
  readonly port: number;
  /** Endpoint as `endpointKey`. */
  readonly endpoint: string;
}

const clients: readonly ClientLocation[] = ['pod', 'external'];

/**
 * Reports whether the Service could still choose this endpoint for this client if it were new.
 *
 * @param isOwn reports whether an address is in the pod networks of this node, including the gateway's addresses
 */
export function mayChoose(intent: ServiceIntent | undefined, choice: LearnedChoice, isOwn: (ip: Ip) => boolean): boolean {
  if (intent?.affinitySeconds === undefined) return false;
  const address = intent.addresses.find(({ ip, port }) => ip.text === choice.address.text && port === choice.port);
  if (address === undefined) return false;
  const client = choice.byGateway && !isOwn(choice.client) ? 'external' : 'pod';
  return keysOf(endpointsFor(intent, address.kind, client)).has(choice.endpoint);
}

/** Returns the idle timeout of the flow that remembers a client (s). 0, for none, if the agent enforces the Service's timeout. */
export function idleTimeoutOf({ affinitySeconds }: Pick<ServiceIntent, 'affinitySeconds'>): number {
  return affinitySeconds === undefined || affinitySeconds > longestSwitchTimeout ? 0 : affinitySeconds;
}

/** Reports whether clients remembered for `before` may have choices that `after` does not allow. */
export function narrows(before: ServiceIntent, after: ServiceIntent | undefined): boolean {
  if (after?.affinitySeconds === undefined) return true;
  const kept = new Set(after.addresses.map(endpointKey));
  if (before.addresses.some((address) => !kept.has(endpointKey(address)))) return true;
  const kinds = new Set(before.addresses.map(({ kind }) => kind));
  return [...kinds].some((kind) => clients.some((client) => loses(endpointsFor(before, kind, client), endpointsFor(after, kind, client))));
}

function endpointsFor(intent: ServiceIntent, kind: ServiceAddress['kind'], client: ClientLocation): readonly ServiceEndpoint[] {
  const answer = answerFor(intent, kind, client);
  return answer.do === 'balance' ? answer.endpoints : [];
}

function loses(before: readonly ServiceEndpoint[], after: readonly ServiceEndpoint[]): boolean {
  if (before === after) return false;
  const there = keysOf(after);
  return before.some((endpoint) => !there.has(endpointKey(endpoint)));
}

/** Keys of a list, cached: thousands of clients are compared with one list. */
const known = new WeakMap<readonly ServiceEndpoint[], ReadonlySet<string>>();

function keysOf(endpoints: readonly ServiceEndpoint[]): ReadonlySet<string> {
  const keys = known.get(endpoints) ?? new Set(endpoints.map(endpointKey));
  known.set(endpoints, keys);
  return keys;
}
