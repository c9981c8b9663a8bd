import { addressBits, type Cidr, cidrOf } from '../../src/base/net/ip.ts';
import { reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, goto, load, priority, type Step } from '../../src/dataplane/pipeline/flow.ts';
import type { Mark } from '../../src/dataplane/pipeline/registers.ts';
import { type PipelineTableName, tables } from '../../src/dataplane/pipeline/tables.ts';
import { relationPriority } from '../../src/policy/flows/rows.ts';

/* Possible bugs of the compilers from matrix to flows, as changes to the flows of a whole node. */

/** Some flows are missing, and others are in their place. */
export interface PolicyMutation {
  readonly gone: readonly Flow[];
  readonly come: readonly Flow[];
}

/** One of several, by chance; undefined if there is none. */
type Pick = <T>(from: readonly T[]) => T | undefined;
/** Undefined if the kind does not apply to these flows. */
type Mutate = (flows: readonly Flow[], pick: Pick) => PolicyMutation | undefined;

const ofTables =
  (...names: readonly PipelineTableName[]) =>
  ({ table }: Flow): boolean =>
    names.includes(table);
const isIn = {
  entries: ofTables('egressEntry', 'ingressEntry'),
  identities: ofTables('destinationIdentity', 'sourceIdentity'),
  relations: ofTables('egressNetworkPolicy', 'ingressNetworkPolicy'),
  decisions: ofTables('egressNetworkPolicyPorts', 'ingressNetworkPolicyPorts'),
};

/** Entry flow of a local pod that some policy isolates, with its class. */
const isEntry = (flow: Flow): boolean => isIn.entries(flow) && loadOf(flow, 'networkPolicyClass') !== undefined;
const isAddress = (flow: Flow): boolean => isIn.identities(flow) && flow.steps.length > 0;
/** The node's own are below. */
const isRelation = (flow: Flow): boolean => isIn.relations(flow) && flow.priority >= relationPriority.class;
const isDecision = (flow: Flow): boolean => isIn.decisions(flow) && flow.priority > priority.miss;
const isRow = (flow: Flow): boolean => [isEntry, isAddress, isRelation, isDecision].some((is) => is(flow));

function loadOf({ steps }: Flow, field: string): Mark | undefined {
  return steps.flatMap((step) => (step.do === 'load' && step.mark.field === field ? [step.mark] : []))[0];
}

function withLoad(flow: Flow, mark: Mark): Flow {
  return { ...flow, steps: flow.steps.map((step) => (step.do === 'load' && step.mark.field === mark.field ? load(mark) : step)) };
}

function replaced(flow: Flow | undefined, by: (flow: Flow) => Flow | undefined): PolicyMutation | undefined {
  const other = flow && by(flow);
  return flow && other ? { gone: [flow], come: [other] } : undefined;
}

const verdicts = { allow: reg.verdict('allow'), deny: reg.verdict('deny') };
const says = (flow: Flow, verdict: keyof typeof verdicts): boolean => loadOf(flow, 'verdict')?.value === verdicts[verdict].value;

/** Another row of the table that loads another value into this field. */
function otherLoad(flows: readonly Flow[], pick: Pick, of: Flow, field: string): Mark | undefined {
  const mine = loadOf(of, field)?.value;
  const marks = flows.filter((each) => each.table === of.table && isRow(each)).flatMap((each) => loadOf(each, field) ?? []);
  return pick(marks.filter(({ value }) => value !== mine));
}

function shifted(flow: Flow, pick: Pick): Flow | undefined {
  const { portDst } = flow.match;
  if (typeof portDst !== 'object') return undefined;
  const size = 0x1_0000 - portDst.mask;
  const value = pick([portDst.value - size, portDst.value + size].filter((each) => each >= 0 && each <= 0xffff));
  return value === undefined ? undefined : { ...flow, match: { ...flow.match, portDst: { ...portDst, value } } };
}

/** The network of a row of identities. */
export function networkOf({ match }: Flow): Cidr | undefined {
  const of = match.ipSrc ?? match.ipDst;
  return of && ('network' in of ? of : cidrOf(of, addressBits(of.family)));
}

function resized(flow: Flow, pick: Pick): Flow | undefined {
  const cidr = networkOf(flow);
  if (!cidr) return undefined;
  const by = pick([-1, 1].filter((step) => cidr.prefixLength + step >= 0 && cidr.prefixLength + step <= addressBits(cidr.family)));
  if (by === undefined) return undefined;
  const end = flow.match.ipSrc ? 'ipSrc' : 'ipDst';
  return { ...flow, priority: flow.priority + by, match: { ...flow.match, [end]: cidrOf(cidr.network, cidr.prefixLength + by) } };
}

function otherEnd(flow: Flow): Flow {
  const { ipSrc, ipDst, ...match } = flow.match;
  return { ...flow, match: { ...match, ...(ipSrc && { ipDst: ipSrc }), ...(ipDst && { ipSrc: ipDst }) } };
}

/** Applies relations of a class to another class as well. */
const tooMany: Mutate = (flows, pick) => {
  const row = pick(flows.filter((flow) => isRelation(flow) && flow.priority > relationPriority.class));
  const classOf = ({ match }: Flow): Mark | undefined => match.regs?.find(({ field }) => field === 'networkPolicyClass');
  const mine = row && classOf(row);
  if (!row || !mine) return undefined;
  const others = flows.filter((flow) => isRelation(flow) && flow.table === row.table).flatMap((flow) => classOf(flow) ?? []);
  const other = pick(others.filter(({ value }) => value !== mine.value));
  if (!other) return undefined;
  const match = { ...row.match, regs: (row.match.regs ?? []).map((mark) => (mark === mine ? other : mark)) };
  const isTheSame = (flow: Flow): boolean =>
    flow.table === row.table && flow.priority === row.priority && JSON.stringify(flow.match) === JSON.stringify(match);
  return { gone: flows.filter(isTheSame), come: [{ ...row, match }] };
};

const swapped: Mutate = (flows, pick) => {
  const one = pick(flows.filter((flow) => isRow(flow) && !isEntry(flow)));
  if (!one) return undefined;
  const text = (steps: readonly Step[]): string => JSON.stringify(steps);
  const other = pick(flows.filter((flow) => isRow(flow) && flow.table === one.table && text(flow.steps) !== text(one.steps)));
  return (
    other && {
      gone: [one, other],
      come: [
        { ...one, steps: other.steps },
        { ...other, steps: one.steps },
      ],
    }
  );
};

/** A row that denies is missing, and a packet without a row continues as if allowed. */
const openMiss: Mutate = (flows, pick) => {
  const row = pick(
    flows.filter((flow) => (isRelation(flow) || isDecision(flow)) && flow.priority === priority.normal && says(flow, 'deny')),
  );
  const miss = row && flows.find((flow) => flow.table === row.table && flow.priority === priority.miss);
  const verdictTable = tables[row?.table ?? 'classify'].id < tables.route.id ? 'egressVerdict' : 'ingressVerdict';
  return row && miss && { gone: [row, miss], come: [{ ...miss, steps: [load(verdicts.allow), goto(verdictTable)] }] };
};

/** The pod has in one direction its class of the other. */
const crossed: Mutate = (flows, pick) => {
  const entry = pick(flows.filter(isEntry));
  const classOf = (flow: Flow): number | undefined => loadOf(flow, 'networkPolicyClass')?.value;
  const ports = entry && [entry.match.inPort, entry.match.regs?.[0]?.value];
  const other = flows.find(
    (flow) => isEntry(flow) && flow.table !== entry?.table && (ports?.includes(flow.match.inPort ?? flow.match.regs?.[0]?.value) ?? false),
  );
  const mark = other && loadOf(other, 'networkPolicyClass');
  return entry && mark && mark.value !== classOf(entry) ? replaced(entry, (flow) => withLoad(flow, mark)) : undefined;
};

export const policyMutations: Readonly<Record<string, Mutate>> = {
  'a row is missing': (flows, pick) => {
    const row = pick(flows.filter(isRow));
    return row && { gone: [row], come: [] };
  },
  'a row is there for another class as well': tooMany,
  'two rows say what the other should': swapped,
  'a range of ports is beside itself': (flows, pick) =>
    replaced(pick(flows.filter((flow) => isDecision(flow) && flow.match.portDst !== undefined)), (flow) => shifted(flow, pick)),
  'a prefix is one bit too long or too short': (flows, pick) => replaced(pick(flows.filter(isAddress)), (flow) => resized(flow, pick)),
  'two classes are one': (flows, pick) =>
    replaced(pick(flows.filter(isEntry)), (flow) => {
      const other = otherLoad(flows, pick, flow, 'networkPolicyClass');
      return other && withLoad(flow, other);
    }),
  'a class is that of the other direction': crossed,
  'the peer is looked for at the wrong end': (flows, pick) => replaced(pick(flows.filter(isAddress)), otherEnd),
  'a verdict is the other one': (flows, pick) =>
    replaced(pick(flows.filter((flow) => (isRelation(flow) || isDecision(flow)) && loadOf(flow, 'verdict') !== undefined)), (flow) =>
      withLoad(flow, says(flow, 'allow') ? verdicts.deny : verdicts.allow),
    ),
  'an address has the identity of another': (flows, pick) =>
    replaced(pick(flows.filter(isAddress)), (flow) => {
      const other = otherLoad(flows, pick, flow, 'identity');
      return other && withLoad(flow, other);
    }),
  'what finds no row is allowed': openMiss,
};

/* The same for cluster policies. */

const tierClasses: Readonly<Partial<Record<PipelineTableName, string>>> = {
  egressAdmin: 'adminClass',
  ingressAdmin: 'adminClass',
  egressNetworkPolicy: 'networkPolicyClass',
  ingressNetworkPolicy: 'networkPolicyClass',
  egressBaseline: 'baselineClass',
  ingressBaseline: 'baselineClass',
};
const isInTier = {
  relations: ofTables('egressAdmin', 'ingressAdmin', 'egressBaseline', 'ingressBaseline'),
  decisions: ofTables('egressAdminPorts', 'ingressAdminPorts', 'egressBaselinePorts', 'ingressBaselinePorts'),
};
const isTierEntry = (flow: Flow): boolean => isIn.entries(flow) && loadOf(flow, 'policyClasses') !== undefined;
/** Reports whether a flow is for packets of a pod that reaches itself through a Service. */
const isOfItself = (flow: Flow): boolean =>
  isTierEntry(flow) && (flow.match.ctMarks ?? []).some(({ field }) => field === 'service' || field === 'hairpin');
/** Flows for packets that open connections; the others are for answers. */
const isOpening = (flow: Flow): boolean => isTierEntry(flow) && !flow.match.regs?.some(({ field }) => field.startsWith('answer'));
const classOfRow = ({ table, match }: Flow): Mark | undefined => match.regs?.find(({ field }) => field === tierClasses[table]);
const isTierRelation = (flow: Flow): boolean =>
  isInTier.relations(flow) && flow.priority >= relationPriority.class && classOfRow(flow) !== undefined;
const isTierDecision = (flow: Flow): boolean =>
  isInTier.decisions(flow) && flow.priority > priority.miss && (flow.match.regs ?? []).some(({ field }) => field === 'decision');
const isTierRow = (flow: Flow): boolean => isTierRelation(flow) || isTierDecision(flow);
const nextTier: Readonly<Partial<Record<PipelineTableName, PipelineTableName>>> = {
  egressAdmin: 'egressNetworkPolicy',
  egressAdminPorts: 'egressNetworkPolicy',
  ingressAdmin: 'ingressNetworkPolicy',
  ingressAdminPorts: 'ingressNetworkPolicy',
};
const passes = ({ table, steps }: Flow): boolean => steps.some((step) => step.do === 'goto' && step.table === nextTier[table]);
const verdictTableOf = ({ table }: Flow): PipelineTableName => (tables[table].id < tables.route.id ? 'egressVerdict' : 'ingressVerdict');
const decides = (flow: Flow, verdict: keyof typeof verdicts): Flow => ({
  ...flow,
  steps: [load(verdicts[verdict]), goto(verdictTableOf(flow))],
});

/** Changes the classes that an entry flow loads. */
function withClasses(flow: Flow, change: (value: number) => number): Flow | undefined {
  const classes = loadOf(flow, 'policyClasses');
  const value = classes && change(classes.value);
  return classes && value !== undefined && value !== classes.value ? withLoad(flow, { ...classes, value }) : undefined;
}

const withoutField = (value: number, { mask }: Mark): number => (value & ~mask) >>> 0;

/** Another entry flow of the same pod and direction. */
function entryOfPod(flows: readonly Flow[], of: Flow): Flow | undefined {
  const placeOf = ({ match }: Flow) => match.inPort ?? match.regs?.find(({ field }) => field === 'outPort')?.value;
  return flows.find((flow) => isOpening(flow) && !isOfItself(flow) && flow.table === of.table && placeOf(flow) === placeOf(of));
}

const tierTooMany: Mutate = (flows, pick) => {
  const row = pick(flows.filter((flow) => isTierRelation(flow) && flow.priority > relationPriority.class));
  const mine = row && classOfRow(row);
  if (!row || !mine) return undefined;
  const others = flows.filter((flow) => isTierRelation(flow) && flow.table === row.table).flatMap((flow) => classOfRow(flow) ?? []);
  const other = pick(others.filter(({ value }) => value !== mine.value && value !== 0));
  return (
    other && {
      gone: [],
      come: [{ ...row, match: { ...row.match, regs: (row.match.regs ?? []).map((each) => (each === mine ? other : each)) } }],
    }
  );
};

const tierSwapped: Mutate = (flows, pick) => {
  const one = pick(flows.filter(isTierRow));
  const text = ({ steps }: Flow): string => JSON.stringify(steps);
  const other = one && pick(flows.filter((flow) => isTierRow(flow) && flow.table === one.table && text(flow) !== text(one)));
  return (
    one &&
    other && {
      gone: [one, other],
      come: [
        { ...one, steps: other.steps },
        { ...other, steps: one.steps },
      ],
    }
  );
};

const pickedRow =
  (is: (flow: Flow) => boolean, by: (flow: Flow, flows: readonly Flow[], pick: Pick) => Flow | undefined): Mutate =>
  (flows, pick) =>
    replaced(pick(flows.filter(is)), (flow) => by(flow, flows, pick));

/** Bugs of cluster policies. */
export const tierMutations: Readonly<Record<string, Mutate>> = {
  'a row of a tier is missing': (flows, pick) => {
    const row = pick(flows.filter(isTierRow));
    return row && { gone: [row], come: [] };
  },
  'an entry flow is missing': (flows, pick) => {
    const row = pick(flows.filter(isOpening));
    return row && { gone: [row], come: [] };
  },
  'a row of a tier is there for another class as well': tierTooMany,
  'two rows of a tier do what the other should': tierSwapped,
  'a verdict of a tier is the other one': pickedRow(
    (flow) => isTierRow(flow) && loadOf(flow, 'verdict') !== undefined,
    (flow) => withLoad(flow, says(flow, 'allow') ? verdicts.deny : verdicts.allow),
  ),
  'a rule passes instead of deciding': pickedRow(
    (flow) => isTierRow(flow) && nextTier[flow.table] !== undefined && loadOf(flow, 'verdict') !== undefined,
    (flow) => ({ ...flow, steps: [goto(nextTier[flow.table] ?? 'route')] }),
  ),
  'a rule that passes allows': pickedRow(
    (flow) => isTierRow(flow) && passes(flow),
    (flow) => decides(flow, 'allow'),
  ),
  'a rule that passes denies': pickedRow(
    (flow) => isTierRow(flow) && passes(flow),
    (flow) => decides(flow, 'deny'),
  ),
  'the default of a tier is another one': pickedRow(
    (flow) => isTierRelation(flow) && flow.priority === relationPriority.class && classOfRow(flow)?.value !== 0,
    (flow) => decides(flow, says(flow, 'allow') ? 'deny' : 'allow'),
  ),
  'a pod without rules in a tier is denied there': pickedRow(
    (flow) => isTierRelation(flow) && classOfRow(flow)?.value === 0,
    (flow) => decides(flow, 'deny'),
  ),
  'the Admin tier is skipped': pickedRow(isOpening, (flow) => withClasses(flow, (value) => withoutField(value, reg.adminClass(0)))),
  'the Baseline tier is skipped': pickedRow(isOpening, (flow) => withClasses(flow, (value) => withoutField(value, reg.baselineClass(0)))),
  'NetworkPolicies are skipped': pickedRow(isOpening, (flow) =>
    withClasses(flow, (value) => withoutField(value, reg.networkPolicyClass(0))),
  ),
  'evaluation begins after the Admin tier': pickedRow(
    (flow) => isOpening(flow) && loadOf(flow, 'clusterPolicies') !== undefined,
    (flow) => ({ ...flow, steps: flow.steps.filter((step) => step.do !== 'load' || step.mark.field !== 'clusterPolicies') }),
  ),
  'the classes are those of another pod': pickedRow(isOpening, (flow, flows, pick) => {
    const mine = loadOf(flow, 'policyClasses')?.value;
    const others = flows
      .filter((each) => each.table === flow.table && isOpening(each))
      .flatMap((each) => loadOf(each, 'policyClasses') ?? []);
    const other = pick(others.filter(({ value }) => value !== mine));
    return other && withLoad(flow, other);
  }),
  'NetworkPolicies decide about a pod that reaches itself': pickedRow(isOfItself, (flow, flows) => {
    const entry = entryOfPod(flows, flow);
    const classes = entry && loadOf(entry, 'policyClasses');
    return classes && classes.value !== loadOf(flow, 'policyClasses')?.value ? withLoad(flow, classes) : undefined;
  }),
  'a pod that reaches itself is not evaluated': (flows, pick) => {
    const row = pick(flows.filter(isOfItself));
    return row && { gone: [row], come: [] };
  },
  'a pod that reaches itself is looked up by its translated address': pickedRow(
    (flow) => isOfItself(flow) && flow.table === 'ingressEntry',
    (flow) => ({ ...flow, steps: flow.steps.map((step): Step => (step.do === 'resubmit' ? { do: 'resubmit', table: step.table } : step)) }),
  ),
  'a range of ports of a tier is beside itself': pickedRow(
    (flow) => isTierDecision(flow) && flow.match.portDst !== undefined,
    (flow, _, pick) => shifted(flow, pick),
  ),
  'an address has the identity of another': pickedRow(isAddress, (flow, flows, pick) => {
    const other = otherLoad(flows, pick, flow, 'identity');
    return other && withLoad(flow, other);
  }),
};
