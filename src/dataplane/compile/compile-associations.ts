import type { Family } from '../../base/net/ip.ts';
import { associationShares } from '../pipeline/cookie.ts';
import { reg, sourceToCtMark } from '../pipeline/fields.ts';
import type { Flow, LearnAssociation, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit } from '../pipeline/flow.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { zones } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/**
 * SCTP where the tracker sees none of its ports: all associations of two addresses are one connection there, so what it says of a packet is
 * true of another. The switch itself remembers associations instead, by their ports, as flows that packets teach it: whoever opened one
 * that was let in (`opener`), and with the ends exchanged who answers (`answer`). The opening side is asked each time, as of every connection,
 * and refreshes both; what is denied of an association that was let in turns its answers into denied ones, which is what `barred` does
 * elsewhere. A packet that belongs to none opens one. Its mark in the tracker is never `barred`: it is that of other associations, too. Pure.
 *
 * Each sender has a share of what is learned (`associationShares`): one that opens associations without end leaves none of its own remembered, and
 * takes no room from others. A local pod's share is found by the last byte of its address, any other sender's by its last six bits.
 *
 * No Service is translated there, or has a port of SCTP at all (`src/services/compile`).
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

/** What is denied: of an association that was let in the answers, too, for as long as its opener goes on. Nothing is barred in the tracker. */
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

/** Where ports decide pieces are denied: that the tracker knows two addresses says nothing of their ports. */
export function associationsInPieces(ports: PipelineTableName, verdicts: PipelineTableName, environment: NodeEnvironment): readonly Flow[] {
  return blindFamilies(environment).map((family) => ({
    table: ports,
    priority: priority.override,
    match: { payload: family, protocol: 'sctp', fragment: 'yes' },
    steps: [load(reg.verdict('deny')), load(reg.reason('pieces')), goto(verdicts)],
  }));
}

/** One flow for each share. The answering side is learned second: its result counts, for without it answers are not known. */
function shares(family: Family, as: LearnAssociation['as']): readonly Flow[] {
  const flow = (level: number, match: Match, share: number): Flow => ({
    table: 'associationShares',
    priority: level,
    match: { payload: family, protocol: 'sctp', ...match },
    steps: learned(family, as, share),
  });
  const { pods, others } = associationShares;
  return [
    ...Array.from({ length: pods }, (_, value) =>
      flow(priority.high, { ipSrcEnd: { value, mask: pods - 1 }, regs: [reg.source('pod')] }, value),
    ),
    ...Array.from({ length: others }, (_, value) => flow(priority.normal, { ipSrcEnd: { value, mask: others - 1 } }, pods + value)),
  ];
}

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
