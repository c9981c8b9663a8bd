import type { Family } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit, resubmitAsOpened } from '../pipeline/flow.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { zones } from '../pipeline/well-known.ts';
import { associationsInPieces, deniedAssociations } from './compile-associations.ts';
import { answer } from './compile-entry.ts';
import { asksAboutAnswers, familiesOf, type NodeEnvironment, ownAddresses } from './environment.ts';

/** Tables of one direction. Admitted packets continue at `next`. */
interface Direction {
  readonly lookup: PipelineTableName;
  readonly identity: PipelineTableName;
  readonly classes: PipelineTableName;
  readonly ports: PipelineTableName;
  readonly verdicts: PipelineTableName;
  readonly next: PipelineTableName;
  /** Marks replies to connections that this direction decides, and the table where those that are still admitted continue. */
  readonly answers: ReturnType<typeof reg.answerFrom>;
  readonly answersNext: PipelineTableName;
}

const egress: Direction = {
  lookup: 'egressLookup',
  identity: 'destinationIdentity',
  classes: 'egressNetworkPolicy',
  ports: 'egressNetworkPolicyPorts',
  verdicts: 'egressVerdict',
  next: 'route',
  answers: reg.answerTo('asked'),
  answersNext: 'commit',
};
const ingress: Direction = {
  lookup: 'ingressLookup',
  identity: 'sourceIdentity',
  classes: 'ingressNetworkPolicy',
  ports: 'ingressNetworkPolicyPorts',
  verdicts: 'ingressVerdict',
  next: 'commit',
  answers: reg.answerFrom('asked'),
  answersNext: 'route',
};

/**
 * Compiles the path of policy, independent of policies: replies pass, other packets are evaluated, and the decision is applied. Pods
 * blocked pending policy have their own class, and communicate only with their own node. Pure.
 */
export function compileVerdicts(environment: NodeEnvironment): readonly Flow[] {
  const closed = reg.networkPolicyClass('closed');
  const decided = (table: PipelineTableName, level: number, verdict: 'allow' | 'deny', to: PipelineTableName, match: Match = {}): Flow => ({
    table,
    priority: level,
    match: { ...match, regs: [closed] },
    steps: [load(reg.verdict(verdict)), goto(to)],
  });
  return [
    ...[egress, ingress].flatMap((direction) => [
      ...asked(direction),
      decided(direction.classes, priority.lowest, 'deny', direction.verdicts),
      ...familiesOf(environment).flatMap((family) => fragments(direction, family)),
      ...associationsInPieces(direction.ports, direction.verdicts, environment),
      ...done(direction, environment),
      ...(asksAboutAnswers(environment) ? answered(direction, environment) : []),
    ]),
    ...(asksAboutAnswers(environment) ? answersToTheNode(environment) : []),
    ...ownAddresses(environment).map((ipDst) =>
      decided(egress.classes, priority.low, 'allow', egress.verdicts, { payload: ipDst.family, ipDst }),
    ),
  ];
}

function asked({ lookup, identity, classes, next }: Direction): Flow[] {
  return [
    { table: lookup, priority: priority.normal, match: { regs: [reg.verdict('standing')] }, steps: [goto(next)] },
    { table: lookup, priority: priority.low, match: { regs: [reg.verdict('none')] }, steps: [resubmit(identity), goto(classes)] },
  ];
}

function done(direction: Direction, environment: NodeEnvironment): Flow[] {
  const { verdicts, next } = direction;
  const allowed = {
    table: verdicts,
    priority: priority.normal,
    match: { regs: [reg.verdict('allow')] },
    steps: [...forgotten(), goto(next)],
  };
  return [allowed, ...denied(direction, environment)];
}

/**
 * Returns the flows for packets denied to or from a pod of this node, by direction; a copy may be sent to the agent (`compileDeniedLog`).
 * Pure.
 */
export function deniedFlows(environment: NodeEnvironment): Readonly<Record<'egress' | 'ingress', readonly Flow[]>> {
  return { egress: denied(egress, environment), ingress: denied(ingress, environment) };
}

/**
 * Flows for fragments where ports decide and connection tracking does not reassemble (userspace data path): none shows its port. Those of
 * an admitted connection pass, since its first packet had the port that was evaluated; none opens a connection. Decisions for a protocol as
 * a whole are above, and apply to fragments that show their protocol.
 */
function fragments({ ports, verdicts }: Direction, payload: Family): Flow[] {
  const flow = (level: number, match: Match, ...loads: Step[]): Flow => ({
    table: ports,
    priority: level,
    match: { payload, fragment: 'yes', ...match },
    steps: [...loads, goto(verdicts)],
  });
  const settled: Match = { ctState: { new: '-', inv: '-', trk: '+' }, ctMarks: [ctMark.barred('no')] };
  return [
    flow(priority.highest, settled, load(reg.verdict('allow'))),
    flow(priority.above, {}, load(reg.verdict('deny')), load(reg.reason('pieces'))),
  ];
}

/**
 * Flows for replies for which policy was evaluated again (`answersFrom`, `answersTo`). Where ports decide, these are those with which the
 * connection was opened; for one through a Service that is the Service's port, which decides nothing, so that the reply passes. A
 * connection that is now denied is barred.
 */
function answered({ ports, verdicts, answers, answersNext }: Direction, environment: NodeEnvironment): Flow[] {
  const flow = (table: PipelineTableName, level: number, match: Match, steps: readonly Step[]): Flow => ({
    table,
    priority: level,
    match,
    steps,
  });
  const [allow, deny] = [reg.verdict('allow'), reg.verdict('deny')];
  const asOpened = [load(reg.answerPorts('yes')), resubmitAsOpened(ports)];
  return [
    flow(ports, priority.guard, { ctState: answer, ctMarks: [ctMark.service('no')], regs: [answers, reg.answerPorts('no')] }, asOpened),
    flow(ports, priority.guard, { ctMarks: [ctMark.service('yes')], regs: [answers] }, [load(allow), goto(verdicts)]),
    flow(verdicts, priority.guard, { regs: [answers, allow] }, [...stands(answers), resubmit(answersNext)]),
    ...familiesOf(environment).map((payload) =>
      flow(verdicts, priority.guard, { payload, ctState: { trk: '+' }, regs: [answers, deny] }, [barred(payload)]),
    ),
  ];
}

/** Flows for replies to the node itself: policy is not evaluated, because it reaches its pods regardless of policies. */
function answersToTheNode(environment: NodeEnvironment): Flow[] {
  const flow = (level: number, match: Match, steps: readonly Step[]): Flow => ({
    table: 'ingressLookup',
    priority: level,
    match: { ...match, regs: [ingress.answers] },
    steps,
  });
  return [
    flow(priority.high, {}, [goto('ingressNetworkPolicy')]),
    ...ownAddresses(environment).map((ipDst) =>
      flow(priority.higher, { payload: ipDst.family, ipDst }, [...stands(ingress.answers), resubmit(ingress.answersNext)]),
    ),
  ];
}

/** Steps that clear the state of the evaluation. */
function stands(answers: Direction['answers']): Step[] {
  return [...forgotten(), load({ ...answers, value: 0 }), load(reg.answerPorts('no')), load(reg.verdict('standing'))];
}

/**
 * Flows for denied packets. They are dropped, and a known connection is barred. A packet that connection tracking considers invalid has no
 * direction: it bars nothing, otherwise a reply could bar the connection that it replies to.
 *
 * Where policies are not enforced, the packet continues: the flow that counts it is the same.
 */
function denied({ verdicts, next }: Direction, environment: NodeEnvironment): Flow[] {
  const { policyMode = 'enforce' } = environment;
  const verdict = reg.verdict('deny');
  const flow = (level: number, match: Match, steps: readonly Step[]): Flow => ({ table: verdicts, priority: level, match, steps });
  const bar = (family: Family): Flow =>
    flow(priority.high, { payload: family, ctState: { new: '-', inv: '-', trk: '+' }, ctMarks: [ctMark.barred('no')], regs: [verdict] }, [
      barred(family),
    ]);
  return policyMode === 'enforce'
    ? [...familiesOf(environment).map(bar), ...deniedAssociations(verdicts, environment), flow(priority.normal, { regs: [verdict] }, drop)]
    : [flow(priority.normal, { regs: [verdict] }, [...forgotten(), goto(next)])];
}

function barred(family: Family): Step {
  return { do: 'ct', zone: zones[family].main, commit: true, exec: [{ do: 'mark', mark: ctMark.barred('yes') }] };
}

/**
 * Steps that clear policy's registers. Registers are part of the context when a packet passes connection tracking: each value would be
 * another one.
 */
function forgotten(): Step[] {
  const { verdict, networkPolicyClass, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine } = reg;
  return [verdict, networkPolicyClass, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine].map((field) =>
    load(field(0)),
  );
}
