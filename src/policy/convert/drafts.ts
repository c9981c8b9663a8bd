import * as z from 'zod';
import type { ClusterPeerObject, ClusterPodsObject, ClusterProtocolObject, LabelSelectorObject } from '../verify/reference/objects.ts';

export type ConvertedTier = 'Admin' | 'Baseline';
type ClusterAction = 'Accept' | 'Deny' | 'Pass';

/** Policy before its rank is known. */
export interface DraftPolicy {
  /** Object that it comes from, for messages. */
  readonly object: string;
  /** Name that the result should have. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly tier: ConvertedTier;
  readonly order: DraftOrder;
  /** Priority of the result if no policy of another kind is in the tier. */
  readonly ownPriority?: number;
  readonly parts: readonly DraftPart[];
}

/** Order of evaluation: compared field by field. */
interface DraftOrder {
  readonly tier: number;
  readonly priority: number;
  readonly createdAt: string;
}

/** Rules of a policy with the same subjects. Each subject gets a policy of its own. */
export interface DraftPart {
  /** Place among the parts of the policy; parts of different directions may share one. */
  readonly offset: number;
  readonly subjects: readonly ClusterPodsObject[];
  readonly ingress: readonly DraftRule[];
  readonly egress: readonly DraftRule[];
  /** Denied connections are answered. */
  readonly isRejecting: boolean;
}

/** Rule without the limits of the API on the length of lists. */
export interface DraftRule {
  readonly name?: string;
  readonly action: ClusterAction;
  readonly isRejecting?: boolean;
  readonly peers: readonly ClusterPeerObject[];
  /** Absent: every protocol. */
  readonly protocols?: readonly ClusterProtocolObject[];
}

export type RuleDirection = 'ingress' | 'egress';

/** Field with the peers of a rule. */
export const peerFields = { ingress: 'from', egress: 'to' } as const;

/** Entries of one list of an object. The APIs admit 100 or do not limit them. */
const LIST_MAX = 1_000;

export const list = z.array(z.unknown()).max(LIST_MAX).nullish();

const LABEL_MAX = 317; // prefix of 253, slash, name of 63
const labelText = z.string().max(LABEL_MAX);
const labels = z.record(labelText, labelText);

export const selectorSchema: z.ZodType<LabelSelectorObject> = z
  .strictObject({
    matchLabels: labels.nullish(),
    matchExpressions: z
      .array(
        z.strictObject({
          key: labelText.min(1),
          operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
          values: z.array(labelText).max(LIST_MAX).nullish(),
        }),
      )
      .max(LIST_MAX)
      .nullish(),
  })
  .transform(({ matchLabels, matchExpressions }) => ({
    ...(matchLabels ? { matchLabels } : {}),
    ...(matchExpressions
      ? { matchExpressions: matchExpressions.map(({ key, operator, values }) => ({ key, operator, ...(values ? { values } : {}) })) }
      : {}),
  }));

const NAME_MAX = 253;
const annotationText = z.string();

export const metadataSchema = z.looseObject({
  name: z.string().min(1).max(NAME_MAX),
  namespace: z.string().max(NAME_MAX).nullish(),
  labels: labels.nullish(),
  annotations: z.record(labelText, annotationText).nullish(),
  creationTimestamp: z.string().nullish(),
});

export const RULE_NAME_MAX = 100;

export const portNumber = z.int().min(1).max(65_535);

/** Returns the entry for a range of ports of a transport protocol. The API has numbers for single ports. */
export function protocolOf(protocol: 'TCP' | 'UDP' | 'SCTP', start: number, end: number): ClusterProtocolObject {
  const destinationPort = start === end ? { number: start } : { range: { start, end } };
  return { [{ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' }[protocol]]: { destinationPort } };
}

const keptOut = 'kubectl.kubernetes.io/last-applied-configuration';

/** Returns the annotations of a user's object, without those that describe the object that it came from. */
export function keptAnnotations(annotations: Readonly<Record<string, string>> | null | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(annotations ?? {}).filter(([name]) => name !== keptOut));
}
