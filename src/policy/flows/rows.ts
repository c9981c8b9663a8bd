import { type Cidr, cidrAddress, type Family } from '../../base/net/ip.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { type Flow, goto, load, type Match, priority, type Step, type Transport } from '../../dataplane/pipeline/flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { PipelineTableName } from '../../dataplane/pipeline/tables.ts';
import type { DecidedRange, PolicyDirection, PolicyOutcome } from '../matrix/matrix.ts';
import { portPrefixes } from './port-prefixes.ts';

/** What a direction's rows are made of. */
export interface DirectionTables {
  /** Where a local pod is given its class. */
  readonly entry: PipelineTableName;
  readonly identity: PipelineTableName;
  readonly relations: PipelineTableName;
  readonly decisions: PipelineTableName;
  readonly verdicts: PipelineTableName;
  /** The end of a packet that is not the local pod's. */
  readonly peer: 'ipSrc' | 'ipDst';
  readonly coarse: (number: number) => Mark;
  readonly fine: (number: number) => Mark;
}

export const directionTables: Readonly<Record<PolicyDirection, DirectionTables>> = {
  egress: {
    entry: 'egressEntry',
    identity: 'destinationIdentity',
    relations: 'egressNetworkPolicy',
    decisions: 'egressNetworkPolicyPorts',
    verdicts: 'egressVerdict',
    peer: 'ipDst',
    coarse: reg.destinationCoarse,
    fine: reg.destinationFine,
  },
  ingress: {
    entry: 'ingressEntry',
    identity: 'sourceIdentity',
    relations: 'ingressNetworkPolicy',
    decisions: 'ingressNetworkPolicyPorts',
    verdicts: 'ingressVerdict',
    peer: 'ipSrc',
    coarse: reg.sourceCoarse,
    fine: reg.sourceFine,
  },
};

/** All in which numbers are that policy lends. */
export const policyTables: ReadonlySet<PipelineTableName> = new Set(
  Object.values(directionTables).flatMap(({ entry, identity, relations, decisions }) => [entry, identity, relations, decisions]),
);

/** Of rows in the tables of identities: the longest network that holds an address says its identity. */
const networkPriority = 1_000;
const protocols: Readonly<Record<DecidedRange['protocol'], Transport>> = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' };

/** Numbers of a class of peers; 0: no term holds it. */
export interface IdentityNumbers {
  readonly coarse: number;
  readonly fine: number;
}

/** Both numbers in one register, which they fill. */
export function identityOf({ coarse, fine }: DirectionTables, numbers: IdentityNumbers): Mark {
  const [wide, narrow] = [coarse(numbers.coarse), fine(numbers.fine)];
  return { field: 'identity', reg: wide.reg, value: wide.value + narrow.value, mask: wide.mask + narrow.mask };
}

/** Network or address to identity: one row, of one action. */
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
 * Says in its cookie what a number stands for. No packet matches it: where it is, the register is 0. The two kinds have a priority each,
 * for a packet of both would match two flows.
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

/** How exactly a row of relations says who the peer is. */
export const relationPriority = { class: priority.normal, coarse: priority.high, fine: priority.higher } as const;

/** Class of the local pod, and of its peer as far as it is said, to a verdict or to a decision by ports. */
export function relationFlow(
  tables: DirectionTables,
  subject: number,
  peer: { readonly coarse?: number; readonly fine?: number },
  decided: PolicyOutcome['verdict'] | { readonly decision: number },
): Flow {
  const { coarse, fine } = peer;
  const regs = [
    reg.networkPolicyClass(subject),
    ...(coarse === undefined ? [] : [tables.coarse(coarse)]),
    ...(fine === undefined ? [] : [tables.fine(fine)]),
  ];
  const level = fine !== undefined ? 'fine' : coarse !== undefined ? 'coarse' : 'class';
  const steps =
    typeof decided === 'string' ? verdictSteps(tables, decided) : [load(reg.decision(decided.decision)), goto(tables.decisions)];
  return { table: tables.relations, priority: relationPriority[level], match: { regs }, steps };
}

/** One range of a decision, as values under masks, of each family. */
export function rangeFlows(
  tables: DirectionTables,
  number: number,
  { protocol, outcome, ...range }: DecidedRange,
  families: readonly Family[],
): readonly Flow[] {
  return families.flatMap((payload) =>
    portPrefixes(range).map((portDst) => {
      const match: Match = { payload, protocol: protocols[protocol] };
      return portDst.mask === 0
        ? decisionRow(tables, number, priority.high, match, outcome.verdict)
        : decisionRow(tables, number, priority.higher, { ...match, portDst }, outcome.verdict);
    }),
  );
}

/** What a decision says of all that is in none of its ranges: the row that says in its cookie what the number stands for. */
export function otherwiseFlow(tables: DirectionTables, number: number, verdict: PolicyOutcome['verdict']): Flow {
  return decisionRow(tables, number, otherwisePriority, {}, verdict);
}

export const otherwisePriority = priority.normal;

function decisionRow(tables: DirectionTables, number: number, level: number, match: Match, verdict: PolicyOutcome['verdict']): Flow {
  return {
    table: tables.decisions,
    priority: level,
    match: { ...match, regs: [reg.decision(number)] },
    steps: verdictSteps(tables, verdict),
  };
}

function verdictSteps({ verdicts }: DirectionTables, verdict: PolicyOutcome['verdict']): readonly Step[] {
  return [load(reg.verdict(verdict)), goto(verdicts)];
}
