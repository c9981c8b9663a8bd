import { addressBits, cidrOf, parseIp } from '../../base/net/ip.ts';
import {
  type ClusterTier,
  classesIn,
  type DecidedRange,
  type DirectionMatrix,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  type PolicyOutcome,
  relationKey,
  type SubjectClass,
} from './matrix.ts';

/** Packet that opens a connection, at one of its ends. */
export interface PolicyPacket {
  readonly direction: PolicyDirection;
  /** Local pod, `namespace/name`. */
  readonly pod: string;
  /** Address of the other end, in any notation. */
  readonly address: string;
  /** Protocol. `TCP`, `UDP` and `SCTP` have ports; others have none. */
  readonly protocol: string;
  /** Destination port. */
  readonly port?: number;
  /** True if nftables on this node masqueraded the source address, which is the node's: the sender is an external client. */
  readonly masqueraded?: boolean;
  /** True if a Service forwarded the packet: only then policies decide about a pod that reaches itself. */
  readonly throughService?: boolean;
}

/** Verdict of the matrix and where it was found: before any class was read, or as an outcome of a decision. */
export type MatrixAnswer =
  | { readonly verdict: 'allow'; readonly why: 'itself' | 'own node' | 'not isolated' }
  | { readonly verdict: 'deny'; readonly why: 'closed' | 'no row' }
  | {
      readonly verdict: 'allow' | 'deny';
      readonly by: readonly string[];
      readonly why: 'decision';
      readonly tier?: ClusterTier;
      /** Answer to a denied client; absent: as the node is configured. */
      readonly denial?: PolicyOutcome['denial'];
    };

/** Decisions of several tiers, in their order. */
interface TieredDecision {
  readonly tiers: readonly PolicyDecision[];
}

/**
 * Looks a packet up in the same order as OVS: subject, peer, relation, decision. A missing entry denies. Slow: it tries every prefix
 * length.
 */
export function interpret(matrix: PolicyMatrix, packet: PolicyPacket): MatrixAnswer {
  return answerOf(lookUp(matrix, packet), packet);
}

/** Like `interpret`, but with the result of `lookUp` for the packet's two ends. */
export function answerOf(found: ReturnType<typeof lookUp>, packet: Pick<PolicyPacket, 'protocol' | 'port'>): MatrixAnswer {
  if ('verdict' in found) return found;
  for (const decision of 'tiers' in found ? found.tiers : [found]) {
    const { verdict, by, denial } = outcomeOf(decision, packet);
    const { tier } = decision;
    if (verdict !== 'next' && !(tier === 'baseline' && by.length === 0))
      return { verdict, by, why: 'decision', ...(tier && { tier }), ...(denial && { denial }) };
  }
  return { verdict: 'allow', why: 'not isolated' };
}

/** Returns one decision in place of those of several tiers. */
export function combined(found: PolicyDecision | TieredDecision): PolicyDecision {
  if (!('tiers' in found)) return found;
  const { tiers } = found;
  const ends = ({ verdict }: PolicyOutcome): boolean => verdict !== 'next';
  const decided = (outcomes: readonly PolicyOutcome[]): PolicyOutcome => outcomes.find(ends) ?? { verdict: 'allow', by: [] };
  const otherwise = decided(tiers.map((tier) => tier.otherwise));
  const ranges = (['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) => {
    const named = tiers.flatMap((tier) => tier.ranges.filter((range) => range.protocol === protocol));
    const starts = [...new Set([0, ...named.flatMap(({ first, last }) => [first, last + 1])])].sort((a, b) => a - b);
    const parts = starts
      .filter((first) => first <= LAST_PORT)
      .map(
        (first, at): DecidedRange => ({
          protocol,
          first,
          last: (starts[at + 1] ?? LAST_PORT + 1) - 1,
          outcome: decided(tiers.map((tier) => outcomeOf(tier, { protocol, port: first }))),
        }),
      );
    return joinedRanges(parts).filter(({ outcome }) => outcome !== otherwise);
  });
  return { ranges, otherwise };
}

const LAST_PORT = 65_535;

function joinedRanges(ranges: readonly DecidedRange[]): readonly DecidedRange[] {
  const result: DecidedRange[] = [];
  for (const range of ranges) {
    const before = result.at(-1);
    if (before?.outcome === range.outcome) result[result.length - 1] = { ...before, last: range.last };
    else result.push(range);
  }
  return result;
}

/** Looks up what applies to all ports between a packet's two ends: a verdict that does not depend on the port, or the decision. */
export function lookUp(
  matrix: PolicyMatrix,
  packet: Omit<PolicyPacket, 'protocol' | 'port'>,
): Exclude<MatrixAnswer, { readonly why: 'decision' }> | PolicyDecision | TieredDecision {
  const subject = matrix.subjects.get(packet.pod);
  if (!subject) return { verdict: 'deny', why: 'closed' };
  const { text } = parseIp(packet.address);
  const isItself = subject.addresses.includes(text);
  if (isItself && !packet.throughService) return { verdict: 'allow', why: 'itself' };
  if (packet.direction === 'ingress' && matrix.ownNode.has(text) && !packet.masqueraded) return { verdict: 'allow', why: 'own node' };
  const classes = classesIn(subject, packet.direction).filter(({ tier }) => !isItself || tier !== undefined);
  if (classes.length === 0) return { verdict: 'allow', why: 'not isolated' };
  const rows = matrix[packet.direction];
  const identity = identityOf(rows, packet.address);
  const decisions = classes.map((each) => relationOf(rows, each, identity));
  const tiers = decisions.flatMap((decision) => decision ?? []);
  if (tiers.length < decisions.length) return { verdict: 'deny', why: 'no row' };
  const [only] = tiers;
  return only && tiers.length === 1 ? only : { tiers };
}

/** Returns the identity of an address: that of the longest network that contains it; undefined if no term matches the address. */
export function identityOf({ identities }: DirectionMatrix, address: string): PeerIdentity | undefined {
  const ip = parseIp(address);
  for (let length: number = addressBits(ip.family); length >= 0; length--) {
    const identity = identities.get(cidrOf(ip, length).text);
    if (identity) return identity;
  }
  return undefined;
}

/** Returns the decision for a class of local pods and an identity; undefined if the matrix has none. */
export function relationOf(
  { relations }: DirectionMatrix,
  subject: SubjectClass,
  identity: PeerIdentity | undefined,
): PolicyDecision | undefined {
  if (!identity) return relations.get(relationKey(subject));
  const { coarse, fine } = identity;
  return (
    relations.get(relationKey(subject, coarse, fine)) ?? relations.get(relationKey(subject, coarse)) ?? relations.get(relationKey(subject))
  );
}

function outcomeOf({ ranges, otherwise }: PolicyDecision, { protocol, port }: Pick<PolicyPacket, 'protocol' | 'port'>): PolicyOutcome {
  const range = ranges.find((each) => each.protocol === protocol && port !== undefined && port >= each.first && port <= each.last);
  return range?.outcome ?? otherwise;
}
