import type { Family } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit, resubmitAsOpened } from '../pipeline/flow.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { zones } from '../pipeline/well-known.ts';
import { associationsInPieces, deniedAssociations } from './compile-associations.ts';
import { answer } from './compile-entry.ts';
import { asksAboutAnswers, familiesOf, type NodeEnvironment, ownAddresses } from './environment.ts';

/** One direction's tables. What was let in goes on at `next`. */
interface Direction {
  readonly lookup: PipelineTableName;
  readonly identity: PipelineTableName;
  readonly classes: PipelineTableName;
  readonly ports: PipelineTableName;
  readonly verdicts: PipelineTableName;
  readonly next: PipelineTableName;
  /** Marks the answers to what is decided here, and where those go on that still stand. */
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
 * Policy's way, whatever policies there are: answers stand, the rest is asked, and what was decided is done. Pods that nobody has decided
 * about have a class of their own, and talk with their own node only. Pure.
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

/** What becomes of what a pod of this node is denied, in both directions; a copy of it may go to the agent (`compileDeniedLog`). Pure. */
export function deniedFlows(environment: NodeEnvironment): Readonly<Record<'egress' | 'ingress', readonly Flow[]>> {
  return { egress: denied(egress, environment), ingress: denied(ingress, environment) };
}

/**
 * Where ports decide, of datagrams that the tracker shows in pieces (the userspace data path's): none shows its port. Those of a
 * connection that was let in go on, for its packets had the port that was judged; none opens one. Decisions for a protocol as a whole
 * are above, and hold for the pieces that show their protocol.
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
 * What becomes of answers that policy was asked about once more (`answersFrom`, `answersTo`). Where ports decide, they are those that the connection was
 * opened with; of one by a Service that is the Service's, which says nothing, so that it stands. What is denied now is barred.
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

/** Of answers to what the node itself makes nobody is asked: it reaches its pods, whatever policies say. */
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

/** Nothing remains of the question. */
function stands(answers: Direction['answers']): Step[] {
  return [...forgotten(), load({ ...answers, value: 0 }), load(reg.answerPorts('no')), load(reg.verdict('standing'))];
}

/**
 * What was denied is dropped; of a connection that is known, the rest is barred by it. What the tracker calls invalid has no direction:
 * it bars nothing, or an answer could bar what it answers.
 *
 * Where policies are not enforced what would be denied goes on: the flow that counts it is there all the same.
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

/** What is in registers when a packet passes the tracker is another context for each of its values: nothing of policy stays. */
function forgotten(): Step[] {
  const { verdict, networkPolicyClass, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine } = reg;
  return [verdict, networkPolicyClass, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine].map((field) =>
    load(field(0)),
  );
}
