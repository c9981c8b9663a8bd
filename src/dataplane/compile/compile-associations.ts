import type { Family } from '../../base/net/ip.ts';
import { associationNumberOf, associationShares, shareOfNumber } from '../pipeline/cookie.ts';
import { reg, sourceToCtMark } from '../pipeline/fields.ts';
import type { Flow, LearnAssociation, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit } from '../pipeline/flow.ts';
import { type EntryPattern, shareFlow } from '../pipeline/flow-pattern.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { zones } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/**
 * Compiles flows for SCTP on data paths whose connection tracking does not see its ports: there, all associations of two addresses are one
 * connection, so the state of one packet may be that of another association. OVS itself remembers associations by their ports, in learned
 * flows: the side that opened an admitted one (`opener`), and with addresses and ports exchanged the side that replies (`answer`). Policy
 * is evaluated for each packet of the opening side, as for every connection, which also refreshes both flows. If an admitted association is
 * denied later, its replies are denied too, which corresponds to `barred` elsewhere. A packet that belongs to no association opens one. The
 * `ct_mark` is never `barred`: other associations share it. Pure.
 *
 * Each sender has a share of the learned flows (`associationShares`): one that opens unlimited associations exhausts only its own share. A
 * local pod's share is given by the last byte of its address, any other sender's by its last six bits.
 *
 * Services are not translated there, and have no SCTP ports at all (`src/services/compile`).
 */
export function associations(environment: NodeEnvironment): readonly Flow[] {
  return blindFamilies(environment).flatMap((family) => {
    const payload = { payload: family, protocol: 'sctp' } as const;
    const flow = (table: PipelineTableName, level: number, match: Match, steps: readonly Step[]): Flow => ({
      table,
      priority: level,
      match: { ...payload, ...match },
      steps,
    });
    return [
      flow('state', priority.highest, { ctState: { new: '+', inv: '-', trk: '+' } }, [resubmit('associations'), goto('serviceEntry')]),
      flow('state', priority.highest, { ctState: { new: '-', inv: '-', trk: '+' } }, [resubmit('associations'), goto('egressEntry')]),
      flow('egressEntry', priority.guard, { regs: [reg.verdict('deny')] }, drop),
      ...shares(family, environment.liveConnections === 'keep' ? 'kept' : 'letIn'),
      flow('unlearnedAssociations', priority.normal, { regs: [reg.associationLearned('no')] }, drop),
      ...(['unknown', 'opener'] as const).flatMap((side) => {
        const taught = [resubmit('associationShares'), resubmit('unlearnedAssociations')];
        const regs = [reg.sctpSide(side)];
        const commit: Step = { do: 'ct', zone: zones[family].main, commit: true, exec: [{ do: 'moveToMark', ...sourceToCtMark }] };
        return [
          flow('commit', priority.higher, { ctState: { new: '+', trk: '+' }, regs }, [...taught, commit, goto('tunnel')]),
          flow('commit', priority.higher, { ctState: { new: '-', trk: '+' }, regs }, [...taught, goto('tunnel')]),
        ];
      }),
    ];
  });
}

/**
 * Compiles denials. If an association was admitted before, replies are denied too, as long as its opener continues to send. The connection
 * tracking entry is not marked `barred`.
 */
export function deniedAssociations(verdicts: PipelineTableName, environment: NodeEnvironment): readonly Flow[] {
  const flow = (family: Family, level: number, regs: Match['regs'] & {}, steps: readonly Step[]): Flow => ({
    table: verdicts,
    priority: level,
    match: { payload: family, protocol: 'sctp', regs: [reg.verdict('deny'), ...regs] },
    steps,
  });
  return blindFamilies(environment).flatMap((family) => [
    flow(family, priority.highest, [reg.sctpSide('opener')], learned(family, 'barred')),
    flow(family, priority.higher, [], drop),
  ]);
}

/** Returns the matches of denied packets that may open an association: those of no known one. */
export function sctpOpenings(environment: NodeEnvironment): readonly Match[] {
  return blindFamilies(environment).map((payload) => ({
    payload,
    protocol: 'sctp',
    ctState: { inv: '-', trk: '+' },
    regs: [reg.sctpSide('unknown')],
  }));
}

/** Denies fragments where ports decide: a connection known by two addresses implies nothing about their ports. */
export function associationsInChunks(ports: PipelineTableName, verdicts: PipelineTableName, environment: NodeEnvironment): readonly Flow[] {
  return blindFamilies(environment).map((family) => ({
    table: ports,
    priority: priority.override,
    match: { payload: family, protocol: 'sctp', fragment: 'yes' },
    steps: [load(reg.verdict('deny')), load(reg.reason('pieces')), load(reg.denial('drop')), goto(verdicts)],
  }));
}

/** Compiles one flow for each share. */
function shares(family: Family, as: 'kept' | 'letIn'): readonly Flow[] {
  const { pods, others } = associationShares;
  const { ofPod, ofOther } = shareFlows[as];
  return [
    ...Array.from({ length: pods }, (_, value) => shareFlow(ofPod, family, value, associationNumberOf(value))),
    ...Array.from({ length: others }, (_, value) => shareFlow(ofOther, family, value, associationNumberOf(pods + value))),
  ];
}

/** Flows of shares, whose numbers are the last bits of the address and the number of the share in the cookie of what is learned. */
const shareFlows = { kept: shareFlowsOf('kept'), letIn: shareFlowsOf('letIn') };

function shareFlowsOf(as: LearnAssociation['as']): { readonly ofPod: EntryPattern; readonly ofOther: EntryPattern } {
  const pattern =
    (level: number, count: number, match: Match): EntryPattern =>
    ({ ip: { family }, numbers: [value, number] }) => ({
      table: 'associationShares',
      priority: level,
      match: { payload: family, protocol: 'sctp', ipSrcEnd: { value, mask: count - 1 }, ...match },
      steps: learned(family, as, shareOfNumber(number)),
    });
  const { pods, others } = associationShares;
  return { ofPod: pattern(priority.high, pods, { regs: [reg.source('pod')] }), ofOther: pattern(priority.normal, others, {}) };
}

/** The replying side is learned second and its result counts: without that flow, replies are unknown. */
function learned(family: Family, as: LearnAssociation['as'], share?: number): readonly Step[] {
  return (['opener', 'answer'] as const).map((side) => ({
    do: 'learnAssociation',
    family,
    side,
    as,
    ...(share === undefined ? {} : { share }),
  }));
}

function blindFamilies(environment: NodeEnvironment): readonly Family[] {
  return environment.blindToSctp ? familiesOf(environment) : [];
}
