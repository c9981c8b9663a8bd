import type { Cidr, Family } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit, resubmitAsOpened } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { zones } from '../pipeline/well-known.ts';
import { associationsInChunks, deniedAssociations, sctpOpenings } from './compile-associations.ts';
import { answer } from './compile-entry.ts';
import { checksReplies, familiesOf, type NodeEnvironment, ownAddresses } from './environment.ts';

/** Tables of one direction. Admitted packets continue at `next`. */
interface Direction {
  readonly lookup: PipelineTableName;
  readonly identity: PipelineTableName;
  /** Tables of each tier: classes of pods, and decisions by ports. */
  readonly admin: TierOfDirection;
  readonly networkPolicy: TierOfDirection;
  readonly baseline: TierOfDirection;
  readonly verdicts: PipelineTableName;
  readonly next: PipelineTableName;
  /** Marks replies to connections that this direction decides, and the table where those that are still admitted continue. */
  readonly answers: ReturnType<typeof reg.answerFrom>;
  readonly answersNext: PipelineTableName;
}

interface TierOfDirection {
  readonly classes: PipelineTableName;
  readonly ports: PipelineTableName;
}

const egress: Direction = {
  lookup: 'egressLookup',
  identity: 'destinationIdentity',
  admin: { classes: 'egressAdmin', ports: 'egressAdminPorts' },
  networkPolicy: { classes: 'egressNetworkPolicy', ports: 'egressNetworkPolicyPorts' },
  baseline: { classes: 'egressBaseline', ports: 'egressBaselinePorts' },
  verdicts: 'egressVerdict',
  next: 'route',
  answers: reg.answerTo('asked'),
  answersNext: 'commit',
};
const ingress: Direction = {
  lookup: 'ingressLookup',
  identity: 'sourceIdentity',
  admin: { classes: 'ingressAdmin', ports: 'ingressAdminPorts' },
  networkPolicy: { classes: 'ingressNetworkPolicy', ports: 'ingressNetworkPolicyPorts' },
  baseline: { classes: 'ingressBaseline', ports: 'ingressBaselinePorts' },
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
    // Too little is known of a blocked pod to refuse connections.
    steps: [load(reg.verdict(verdict)), ...(verdict === 'deny' ? [load(reg.denial('drop'))] : []), goto(to)],
  });
  return [
    ...[egress, ingress].flatMap((direction) => [
      ...asked(direction),
      decided(direction.networkPolicy.classes, priority.lowest, 'deny', direction.verdicts),
      ...tiersWithoutRules(direction),
      ...portsOf(direction).flatMap((ports) => [
        ...familiesOf(environment).flatMap((family) => fragments(ports, direction.verdicts, family)),
        ...associationsInChunks(ports, direction.verdicts, environment),
      ]),
      ...done(direction, environment),
      ...(checksReplies(environment) ? answered(direction, environment) : []),
    ]),
    ...(checksReplies(environment) ? answersToTheNode(environment) : []),
    ...ownAddresses(environment).map((ipDst) =>
      decided(egress.networkPolicy.classes, priority.low, 'allow', egress.verdicts, { payload: ipDst.family, ipDst }),
    ),
  ];
}

function portsOf({ admin, networkPolicy, baseline }: Direction): readonly PipelineTableName[] {
  return [admin.ports, networkPolicy.ports, baseline.ports];
}

/** Pods without cluster policies begin with NetworkPolicies: their classes of other tiers are not loaded. */
function asked({ lookup, identity, networkPolicy, admin, next }: Direction): Flow[] {
  const [none, tiered] = [reg.verdict('none'), reg.clusterPolicies('yes')];
  return [
    { table: lookup, priority: priority.normal, match: { regs: [reg.verdict('standing')] }, steps: [goto(next)] },
    { table: lookup, priority: priority.low, match: { regs: [none] }, steps: [resubmit(identity), goto(networkPolicy.classes)] },
    {
      table: lookup,
      priority: priority.aboveLow,
      match: { regs: [none, tiered] },
      steps: [load(reg.clusterPolicies('no')), resubmit(identity), goto(admin.classes)],
    },
  ];
}

/** Flows for pods that have no rules in a tier: the next tier decides, and what none decides is allowed. */
function tiersWithoutRules({ admin, networkPolicy, baseline, verdicts }: Direction): Flow[] {
  const flow = (table: PipelineTableName, none: Mark, steps: readonly Step[]): Flow => ({
    table,
    priority: priority.normal,
    match: { regs: [none] },
    steps,
  });
  return [
    flow(admin.classes, reg.adminClass(0), [goto(networkPolicy.classes)]),
    flow(networkPolicy.classes, reg.networkPolicyClass('none'), [goto(baseline.classes)]),
    flow(baseline.classes, reg.baselineClass(0), [load(reg.verdict('allow')), goto(verdicts)]),
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
  return { egress: denied(egress, environment), ingress: [...denied(ingress, environment), ...refusedFromGateway(environment)] };
}

/**
 * Flows for denied packets that come from the gateway where pods of peers may send without a tunnel. Above the flows of the peers, which
 * those for one pod hide; the agent does not answer external clients.
 */
function refusedFromGateway(environment: NodeEnvironment): readonly Flow[] {
  const { policyMode = 'enforce', directPackets, wireGuard } = environment;
  const isExpected = policyMode === 'enforce' && (directPackets === true || wireGuard !== undefined);
  return isExpected ? refusedOf(['gateway'], ingress.verdicts, environment) : [];
}

/**
 * Flows for fragments where ports decide and connection tracking does not reassemble (userspace data path): none shows its port. Those of
 * an admitted connection pass, since its first packet had the port that was evaluated; none opens a connection. Decisions for a protocol as
 * a whole are above, and apply to fragments that show their protocol.
 */
function fragments(ports: PipelineTableName, verdicts: PipelineTableName, payload: Family): Flow[] {
  const flow = (level: number, match: Match, ...loads: Step[]): Flow => ({
    table: ports,
    priority: level,
    match: { payload, fragment: 'yes', ...match },
    steps: [...loads, goto(verdicts)],
  });
  const settled: Match = { ctState: { new: '-', inv: '-', trk: '+' }, ctMarks: [ctMark.unadmitted('no')] };
  return [
    flow(priority.highest, settled, load(reg.verdict('allow'))),
    flow(priority.above, {}, load(reg.verdict('deny')), load(reg.reason('pieces')), load(reg.denial('drop'))),
  ];
}

/**
 * Flows for replies for which policy was evaluated again (`answersFrom`, `answersTo`). Where ports decide, these are those with which the
 * connection was opened; for one through a Service that is the Service's port, which decides nothing, so that the reply passes. A
 * connection that is now denied is barred.
 */
function answered(direction: Direction, environment: NodeEnvironment): Flow[] {
  const { verdicts, answers, answersNext } = direction;
  const flow = (table: PipelineTableName, level: number, match: Match, steps: readonly Step[]): Flow => ({
    table,
    priority: level,
    match,
    steps,
  });
  const [allow, deny] = [reg.verdict('allow'), reg.verdict('deny')];
  const asOpened = (ports: PipelineTableName): readonly Step[] => [load(reg.answerPorts('yes')), resubmitAsOpened(ports)];
  return [
    ...portsOf(direction).flatMap((ports) => [
      flow(
        ports,
        priority.guard,
        { ctState: answer, ctMarks: [ctMark.service('no')], regs: [answers, reg.answerPorts('no')] },
        asOpened(ports),
      ),
      flow(ports, priority.guard, { ctMarks: [ctMark.service('yes')], regs: [answers] }, [load(allow), goto(verdicts)]),
    ]),
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
  const tiered: Flow = {
    table: 'ingressLookup',
    priority: priority.aboveHigh,
    match: { regs: [ingress.answers, reg.clusterPolicies('yes')] },
    steps: [load(reg.clusterPolicies('no')), goto('ingressAdmin')],
  };
  return [
    flow(priority.high, {}, [goto('ingressNetworkPolicy')]),
    tiered,
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
 * Flow for packets of a pod to itself, denied where the pod receives them: dropped only. Their source is translated, so barring would
 * commit another connection than theirs.
 */
function deniedToItself(verdicts: PipelineTableName): readonly Flow[] {
  if (verdicts !== ingress.verdicts) return [];
  const match: Match = { ctMarks: [ctMark.hairpin('yes')], regs: [reg.verdict('deny')] };
  return [{ table: verdicts, priority: priority.aboveHigh, match, steps: drop }];
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
    flow(
      priority.high,
      { payload: family, ctState: { new: '-', inv: '-', trk: '+' }, ctMarks: [ctMark.unadmitted('no')], regs: [verdict] },
      [barred(family)],
    );
  return policyMode === 'enforce'
    ? [
        ...familiesOf(environment).map(bar),
        ...deniedToItself(verdicts),
        ...deniedAssociations(verdicts, environment),
        ...refused(verdicts, environment),
        flow(priority.normal, { regs: [verdict] }, drop),
      ]
    : [flow(priority.normal, { regs: [verdict] }, [...forgotten(), load(reg.denial('unset')), goto(next)])];
}

/**
 * Flows for denied packets that open a connection, and whose sender gets an answer if it is a pod: on this node, or on another one. The
 * packet goes to the agent, or is dropped, as it would be without these flows.
 */
function refused(table: PipelineTableName, environment: NodeEnvironment): Flow[] {
  const senders = table === 'egressVerdict' ? (['pod'] as const) : (['pod', 'tunnel'] as const);
  return refusedOf(senders, table, environment);
}

/**
 * Compiles the flows for denied packets from pods of a peer that may send without a tunnel. They come from the gateway, as do those of
 * external clients, which get no answer.
 */
export function refusedFromPeer(ipSrc: Cidr, environment: NodeEnvironment): readonly Flow[] {
  if (environment.policyMode !== undefined && environment.policyMode !== 'enforce') return [];
  const { family } = ipSrc;
  return refusedOf(['gateway'], 'ingressVerdict', environment)
    .filter(({ match: { payload = family } }) => payload === family)
    .map((flow) => ({ ...flow, match: { ...flow.match, payload: family, ipSrc } }));
}

function refusedOf(senders: readonly ('pod' | 'tunnel' | 'gateway')[], table: PipelineTableName, environment: NodeEnvironment): Flow[] {
  const { denied: configured = 'drop' } = environment;
  const denials = configured === 'reject' ? (['reject', 'unset'] as const) : (['reject'] as const);
  const openings: readonly (readonly [number, Match])[] = [
    [priority.above, { ctState: { new: '+', inv: '-', trk: '+' } }],
    // Conntrack that does not see the ports of SCTP knows an association by its addresses alone.
    ...sctpOpenings(environment).map((match) => [priority.highest, match] as const),
  ];
  return openings.flatMap(([level, match]) =>
    senders.flatMap((sender) =>
      denials.map(
        (denial): Flow => ({
          table,
          priority: level,
          match: { ...match, regs: [reg.verdict('deny'), reg.denial(denial), reg.source(sender), ...(match.regs ?? [])] },
          steps: [goto('refusals')],
        }),
      ),
    ),
  );
}

function barred(family: Family): Step {
  return { do: 'ct', zone: zones[family].main, commit: true, exec: [{ do: 'mark', mark: ctMark.unadmitted('yes') }] };
}

/**
 * Steps that clear policy's registers. Registers are part of the context when a packet passes connection tracking: each value would be
 * another one.
 */
function forgotten(): Step[] {
  const { verdict, policyClasses, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine } = reg;
  return [verdict, policyClasses, decision, sourceCoarse, sourceFine, destinationCoarse, destinationFine].map((field) => load(field(0)));
}
