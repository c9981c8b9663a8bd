import type { Family } from '../../base/net/ip.ts';
import type { ReachParty } from '../../policy/reach/party.ts';
import type { ServiceEndpoint, ServiceIntent } from '../../services/compile/service-intent.ts';
import type { ClientPlace } from '../services/service-answers.ts';

export const sideNames = ['before', 'after'] as const;
export type SideName = (typeof sideNames)[number];

/** Connections of clients to a port of a Service that a change opens, closes or sends elsewhere. */
export interface ServedChange {
  readonly from: string;
  /** `service shop/db`. */
  readonly to: string;
  readonly family?: Family;
  readonly ports: string;
  readonly change: 'opened' | 'closed' | 'other endpoints';
  readonly before: string;
  readonly after: string;
}

/** Answer to a client at a port of a Service. */
export interface ClientAnswer {
  readonly is: 'no Service' | 'no port' | 'refused' | 'dropped' | 'served';
  readonly intent?: ServiceIntent;
  readonly endpoints: readonly JudgedEndpoint[];
}

export interface JudgedEndpoint {
  readonly endpoint: ServiceEndpoint;
  readonly verdict: 'allow' | 'deny';
  readonly by: readonly string[];
}

/** One printed result, with all that the reference needs to confirm it. */
export interface ServiceCell {
  readonly row: ServedChange;
  readonly client: Readonly<Record<SideName, ReachParty>>;
  readonly family: Family;
  readonly place: ClientPlace;
  readonly answers: Readonly<Record<SideName, ClientAnswer>>;
}
