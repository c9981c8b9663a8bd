import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, cidrAddress, type Family } from '../../base/net/ip.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { type Flow, goto, load, type Match, priority, type Step, type Transport } from '../../dataplane/pipeline/flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { PipelineTableName } from '../../dataplane/pipeline/tables.ts';
import { type DecidedRange, type PolicyDirection, type PolicyOutcome, type PolicyTier, policyTiers } from '../matrix/matrix.ts';
import { portPrefixes } from './port-prefixes.ts';

/** Tables and fields of a direction's rows. */
export interface DirectionTables {
  /** Table in which a local pod gets its class. */
  readonly entry: PipelineTableName;
  readonly identity: PipelineTableName;
  readonly tiers: Readonly<Record<PolicyTier, TierTables>>;
  readonly verdicts: PipelineTableName;
  /** Address field of the other end of the connection. */
  readonly peer: 'ipSrc' | 'ipDst';
  readonly coarse: (number: number) => Mark;
  readonly fine: (number: number) => Mark;
}

/** Tables of one tier. */
interface TierTables {
  readonly relations: PipelineTableName;
  readonly decisions: PipelineTableName;
  /** Relations of the next tier; absent: every packet is decided. */
  readonly next?: PipelineTableName;
  readonly subject: (number: number) => Mark;
}

export const directionTables: Readonly<Record<PolicyDirection, DirectionTables>> = {
  egress: {
    entry: 'egressEntry',
    identity: 'destinationIdentity',
    tiers: {
      admin: { relations: 'egressAdmin', decisions: 'egressAdminPorts', next: 'egressNetworkPolicy', subject: reg.adminClass },
      networkPolicy: { relations: 'egressNetworkPolicy', decisions: 'egressNetworkPolicyPorts', subject: reg.networkPolicyClass },
      baseline: { relations: 'egressBaseline', decisions: 'egressBaselinePorts', subject: reg.baselineClass },
    },
    verdicts: 'egressVerdict',
    peer: 'ipDst',
    coarse: reg.destinationCoarse,
    fine: reg.destinationFine,
  },
  ingress: {
    entry: 'ingressEntry',
    identity: 'sourceIdentity',
    tiers: {
      admin: { relations: 'ingressAdmin', decisions: 'ingressAdminPorts', next: 'ingressNetworkPolicy', subject: reg.adminClass },
      networkPolicy: { relations: 'ingressNetworkPolicy', decisions: 'ingressNetworkPolicyPorts', subject: reg.networkPolicyClass },
      baseline: { relations: 'ingressBaseline', decisions: 'ingressBaselinePorts', subject: reg.baselineClass },
    },
    verdicts: 'ingressVerdict',
    peer: 'ipSrc',
    coarse: reg.sourceCoarse,
    fine: reg.sourceFine,
  },
};

/** All tables with numbers that policy allocates. */
export const policyTables: ReadonlySet<PipelineTableName> = new Set(
  Object.values(directionTables).flatMap(({ entry, identity, tiers }) => [
    entry,
    identity,
    ...policyTiers.flatMap((tier) => [tiers[tier].relations, tiers[tier].decisions]),
  ]),
);

/** Base priority of rows in the identity tables. The longest network that contains an address gives its identity. */
const networkPriority = 1_000;
const protocols: Readonly<Record<DecidedRange['protocol'], Transport>> = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' };

/** Numbers of a class of peers; 0 if no term matches it. */
export interface IdentityNumbers {
  readonly coarse: number;
  readonly fine: number;
}

/** Combines both numbers in one register, which they fill. */
export function identityOf({ coarse, fine }: DirectionTables, numbers: IdentityNumbers): Mark {
  const [wide, narrow] = [coarse(numbers.coarse), fine(numbers.fine)];
  return { field: 'identity', reg: wide.reg, value: wide.value + narrow.value, mask: wide.mask + narrow.mask };
}

/** Makes the row from a network or an address to its identity: one row with one action. */
export function addressFlow({ identity, peer }: DirectionTables, cidr: Cidr, whole: Mark): Flow {
  const isHost = cidr.prefixLength === (cidr.family === 'ipv4' ? 32 : 128);
  return {
    table: identity,
    priority: networkPriority + cidr.prefixLength,
    match: { payload: cidr.family, [peer]: isHost ? cidrAddress(cidr, 0n) : cidr },
    steps: [load(whole)],
  };
}

/**
 * Makes a row whose cookie names the content of a number. No packet matches it, because the register is 0 in this table. The two kinds have
 * different priorities: a packet with both numbers would match two flows of the same priority.
 */
export function dictionaryFlow(tables: DirectionTables, kind: 'coarse' | 'fine', number: number): Flow {
  return {
    table: tables.identity,
    priority: dictionaryPriority[kind],
    match: { regs: [tables[kind](number)] },
    steps: [],
  };
}

export const dictionaryPriority = { coarse: priority.lowest, fine: priority.low } as const;

/** Priorities of rows of relations, by how exactly they match the peer. */
export const relationPriority = { class: priority.normal, coarse: priority.high, fine: priority.higher } as const;

/** Part of an outcome that rows contain. */
type RowOutcome = Pick<PolicyOutcome, 'verdict' | 'denial'>;

/** Makes the row from the class of the local pod, and that of its peer if given, to a verdict or to a decision by ports. */
export function relationFlow(
  tables: DirectionTables,
  subject: number,
  peer: { readonly coarse?: number; readonly fine?: number },
  decided: RowOutcome | { readonly decision: number },
  tier: PolicyTier = 'networkPolicy',
): Flow {
  const { relations, decisions, subject: classMark } = tables.tiers[tier];
  const { coarse, fine } = peer;
  const regs = [
    classMark(subject),
    ...(coarse === undefined ? [] : [tables.coarse(coarse)]),
    ...(fine === undefined ? [] : [tables.fine(fine)]),
  ];
  const level = fine !== undefined ? 'fine' : coarse !== undefined ? 'coarse' : 'class';
  const steps = 'decision' in decided ? [load(reg.decision(decided.decision)), goto(decisions)] : outcomeSteps(tables, tier, decided);
  return { table: relations, priority: relationPriority[level], match: { regs }, steps };
}

/** Makes the rows of one range of a decision, as values with masks, for each family. */
export function rangeFlows(
  tables: DirectionTables,
  number: number,
  { protocol, outcome, ...range }: DecidedRange,
  families: readonly Family[],
  tier: PolicyTier = 'networkPolicy',
): readonly Flow[] {
  return families.flatMap((payload) =>
    portPrefixes(range).map((portDst) => {
      const match: Match = { payload, protocol: protocols[protocol] };
      return portDst.mask === 0
        ? decisionRow(tables, tier, number, priority.high, match, outcome)
        : decisionRow(tables, tier, number, priority.higher, { ...match, portDst }, outcome);
    }),
  );
}

/** Makes the row for everything outside the ranges of a decision. Its cookie names the content of the number. */
export function otherwiseFlow(tables: DirectionTables, number: number, outcome: RowOutcome, tier: PolicyTier = 'networkPolicy'): Flow {
  return decisionRow(tables, tier, number, otherwisePriority, {}, outcome);
}

export const otherwisePriority = priority.normal;

function decisionRow(tables: DirectionTables, tier: PolicyTier, number: number, level: number, match: Match, outcome: RowOutcome): Flow {
  const steps = outcomeSteps(tables, tier, outcome);
  return {
    table: tables.tiers[tier].decisions,
    priority: level,
    match: { ...match, regs: [reg.decision(number)] },
    // The next tier looks up the ports of a reply again.
    steps: outcome.verdict === 'next' ? [load(reg.answerPorts('no')), ...steps] : steps,
  };
}

function outcomeSteps({ verdicts, tiers }: DirectionTables, tier: PolicyTier, { verdict, denial }: RowOutcome): readonly Step[] {
  if (verdict !== 'next') return [load(reg.verdict(verdict)), ...(denial ? [load(reg.denial(denial))] : []), goto(verdicts)];
  const { next } = tiers[tier];
  if (!next) throw new SeineError('INVARIANT', `no tier follows ${tier}`);
  return [goto(next)];
}
