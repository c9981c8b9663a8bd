import type { Ip } from '../../base/net/ip.ts';
import {
  answerFor,
  type ClientLocation,
  endpointKey,
  type ServiceAddress,
  type ServiceEndpoint,
  type ServiceIntent,
} from './service-intent.ts';

/** Timeouts of flows are 16-bit numbers (OpenFlow 1.5.1 `ofp_flow_mod`); longer ones are the agent's to keep. */
export const longestSwitchTimeout = 65_535;

/** What the switch remembers of a client with affinity, as the learned flow says it. */
export interface LearnedChoice {
  readonly client: Ip;
  /** Came by the gateway: from the world, from the node itself, or from a pod that the node's packet filter has translated. */
  readonly byGateway: boolean;
  readonly address: Ip;
  readonly port: number;
  /** As `endpointKey` has it. */
  readonly endpoint: string;
}

const clients: readonly ClientLocation[] = ['pod', 'world'];

/**
 * Whether the Service may still choose this endpoint for this client: as if the client were new.
 *
 * @param isOwn whether an address is in the pod networks of this node, the gateway's addresses among them
 */
export function mayChoose(intent: ServiceIntent | undefined, choice: LearnedChoice, isOwn: (ip: Ip) => boolean): boolean {
  if (intent?.affinitySeconds === undefined) return false;
  const address = intent.addresses.find(({ ip, port }) => ip.text === choice.address.text && port === choice.port);
  if (address === undefined) return false;
  const client = choice.byGateway && !isOwn(choice.client) ? 'world' : 'pod';
  return keysOf(endpointsFor(intent, address.kind, client)).has(choice.endpoint);
}

/** Idle timeout of the flow that remembers a client (s). 0, for none, where the timeout of the Service is the agent's to keep. */
export function idleTimeoutOf({ affinitySeconds }: Pick<ServiceIntent, 'affinitySeconds'>): number {
  return affinitySeconds === undefined || affinitySeconds > longestSwitchTimeout ? 0 : affinitySeconds;
}

/** Whether clients that are remembered for `before` may be remembered for what `after` does not allow. */
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

/** Thousands of clients are compared with one list. */
const known = new WeakMap<readonly ServiceEndpoint[], ReadonlySet<string>>();

function keysOf(endpoints: readonly ServiceEndpoint[]): ReadonlySet<string> {
  const keys = known.get(endpoints) ?? new Set(endpoints.map(endpointKey));
  known.set(endpoints, keys);
  return keys;
}
