import type { ConnectionEndView } from '../../api/policy.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cidrContains, type Ip, isIp, parseIp } from '../../base/net/ip.ts';
import { ownAddresses } from '../../dataplane/compile/environment.ts';
import { cookieOf, type Owner } from '../../dataplane/pipeline/cookie.ts';
import { decodeFlowEntry, tableOfKey } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { portsText } from '../../operations/admin/policy/policed-pods.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import type { NodeInputs, PodInput } from '../../operations/compiler-inputs/node-inputs.ts';
import type { RecordedInputs } from '../../operations/history/replay.ts';
import { type BridgePacket, PolicyBytes } from '../../policy/verify/flow-reader/flow-reader.ts';
import type { HeldFlow } from '../../policy/verify/flow-reader/table-index.ts';
import { podNameOf } from '../../simulate/cluster/bundled-node.ts';
import { effectAt, type PastPod } from './pod-at.ts';
import type { RecordedSource } from './recorded-source.ts';

/** Connection whose policies at a past time are asked for. */
export interface PastConnectionQuestion {
  /** `namespace/name` of a pod, or an address. */
  readonly from: string;
  readonly to: string;
  /** `80/TCP`; absent: all. */
  readonly port?: string;
}

/** One end, by the rows that the agent of its node wanted. */
export type PastEnd = Pick<ConnectionEndView, 'direction' | 'pod' | 'from' | 'to' | 'ports' | 'verdict'> & {
  readonly node: string;
  /** `several rules`: they allow the same, and their names are not recorded. */
  readonly why:
    | 'itself'
    | 'own node'
    | 'not isolated'
    | 'blocked'
    | 'a rule allows it'
    | 'several rules'
    | 'no rule allows it'
    | 'unreadable';
  /** Rule that decides, or policies that isolated the pod; empty if they are not recorded. */
  readonly by: readonly string[];
};

/** Decision about a connection at a past time, as far as it was recorded. */
export interface PastConnection extends PastConnectionQuestion {
  readonly at: string;
  readonly verdict: 'allow' | 'deny' | 'mixed';
  readonly ends: readonly PastEnd[];
  /** Times of the records whose inputs were used (RFC 3339), by node. */
  readonly records: readonly { readonly node: string; readonly recorded: string }[];
  readonly remarks: readonly string[];
}

interface PastPolicyNode {
  readonly source: RecordedSource;
  readonly recorded: RecordedInputs;
  readonly inputs: NodeInputs;
  readonly rows: () => PolicyRows;
}

interface PolicyRows {
  readonly bytes: PolicyBytes;
  readonly owners: ReadonlyMap<bigint, string>;
}

/** End of the connection: a pod of a recorded node, or an address. */
interface PastParty {
  readonly name: string;
  readonly addresses: readonly Ip[];
  readonly local?: { readonly pod: PodInput; readonly node: PastPolicyNode };
}

/**
 * Decides whether policies allowed a connection at a time, with the rows that agents wanted then, which name the rules.
 *
 * @param sources histories of the nodes of both ends, as far as there are any
 * @throws SeineError `INVALID_INPUT` that names the field and the value, also for a time that is not recorded
 */
export async function connectionAt(
  sources: readonly RecordedSource[],
  question: PastConnectionQuestion,
  atMs: number,
): Promise<PastConnection> {
  const nodes: PastPolicyNode[] = [];
  for (const source of sources) nodes.push(pastNode(source, await source.inputsAt(atMs)));
  const [from, to] = [partyOf('from', question.from, nodes), partyOf('to', question.to, nodes)];
  if (!from.local && !to.local) throw unknownEnd('from', question.from, nodes);
  const ends = [...(await endsOf('egress', from, to, question.port, atMs)), ...(await endsOf('ingress', to, from, question.port, atMs))];
  return {
    ...question,
    at: new Date(atMs).toISOString(),
    verdict: verdictOf(ends),
    ends,
    records: nodes.map(({ recorded }) => ({ node: recorded.node, recorded: new Date(recorded.atMs).toISOString() })),
    remarks: [remarkOn('egress', from), remarkOn('ingress', to)].flat(),
  };
}

function pastNode(source: RecordedSource, recorded: RecordedInputs): PastPolicyNode {
  const { inputs } = recorded;
  let rows: PolicyRows | undefined;
  return { source, recorded, inputs, rows: () => (rows ??= rowsOf(recorded)) };
}

/** Reads the rows of policies and the entry flows of pods, as the agent wanted them. */
function rowsOf(recorded: RecordedInputs): PolicyRows {
  const { entries, owners } = compileInputs(recorded.inputs);
  const held: HeldFlow[] = [];
  for (const [key, value] of [...entries, ...recorded.policyEntries()])
    if (tableOfKey(key) !== undefined) held.push(decodeFlowEntry(key, value));
  const named = [...owners, ...recorded.policyOwners()];
  return { bytes: new PolicyBytes(held), owners: new Map(named.map((owner) => [cookieOf(owner as Owner), owner])) };
}

function partyOf(field: string, name: string, nodes: readonly PastPolicyNode[]): PastParty {
  const ip = isIp(name) ? parseIp(name) : undefined;
  for (const node of nodes)
    for (const pod of node.inputs.pods) {
      const isNamed = ip === undefined ? podNameOf(pod.owner) === name : pod.intent.addresses.some(({ text }) => text === ip.text);
      if (isNamed) return { name, addresses: ip === undefined ? pod.intent.addresses : [ip], local: { pod, node } };
    }
  if (ip === undefined) throw unknownEnd(field, name, nodes);
  return { name, addresses: [ip] };
}

function unknownEnd(field: string, name: string, nodes: readonly PastPolicyNode[]): SeineError {
  const searched = nodes.map(({ recorded }) => `${recorded.node} at ${new Date(recorded.atMs).toISOString()}`).join(', ');
  const what = isIp(name) ? 'is not the address of a pod' : 'is not a pod';
  const hint = isIp(name) ? '' : '; a pod of another node needs the history of that node, or its address';
  return new SeineError('INVALID_INPUT', `${field}: ${JSON.stringify(name)} ${what} (searched: ${searched})${hint}`);
}

async function endsOf(
  direction: 'ingress' | 'egress',
  own: PastParty,
  peer: PastParty,
  port: string | undefined,
  atMs: number,
): Promise<readonly PastEnd[]> {
  if (!own.local) return [];
  const { node, pod } = own.local;
  const name = podNameOf(pod.owner);
  const effect = (await effectAt(node.source, node.inputs, name, atMs))[direction];
  const asked = port === undefined ? undefined : portOf(port);
  return own.addresses.flatMap((address) =>
    peer.addresses
      .filter(({ family }) => family === address.family)
      .flatMap((other) => {
        const [source, destination] = direction === 'egress' ? [address, other] : [other, address];
        const common = { direction, pod: name, node: node.recorded.node, from: source.text, to: destination.text };
        return decided({ direction, node, pod, address, other, asked, effect }).map((end): PastEnd => ({ ...common, ...end }));
      }),
  );
}

interface AskedPastEnd {
  readonly direction: 'ingress' | 'egress';
  readonly node: PastPolicyNode;
  readonly pod: PodInput;
  readonly address: Ip;
  readonly other: Ip;
  readonly asked: ReturnType<typeof portOf> | undefined;
  readonly effect: PastPod['ingress'];
}

type PastVerdict = Pick<PastEnd, 'ports' | 'verdict' | 'why' | 'by'>;

function decided({ direction, node, pod, address, other, asked, effect }: AskedPastEnd): readonly PastVerdict[] {
  const ports = asked ? portsText({ ...asked, first: asked.number, last: asked.number }) : 'any';
  const whole = (verdict: 'allow' | 'deny', why: PastEnd['why']): readonly PastVerdict[] => [{ ports, verdict, why, by: [] }];
  if (pod.intent.addresses.some(({ text }) => text === other.text)) return whole('allow', 'itself');
  const { environment, pods, peers } = node.inputs;
  if (ownAddresses(environment).some(({ text }) => text === other.text)) return whole('allow', 'own node');
  if (effect.state === 'closed') return whole('deny', 'blocked');
  if (effect.state === 'free') return whole('allow', 'not isolated');
  const isHere = pods.some(({ intent }) => intent.addresses.some(({ text }) => text === other.text));
  const isElsewhere = peers.some(({ podCidrs }) => podCidrs.some((cidr) => cidrContains(cidr, other)));
  const from: BridgePacket['from'] = isHere ? 'pod' : isElsewhere ? 'tunnel' : 'external';
  const { bytes, owners } = node.rows();
  const { outcomes } = bytes.decide({ direction, ofPort: pod.intent.ofPort, own: address, peer: other, from });
  return outcomes
    .filter(({ protocol, first, last }) => !asked || (protocol === asked.protocol && first <= asked.number && last >= asked.number))
    .map((outcome): PastVerdict => ({ ports: asked ? ports : portsText(outcome), ...ruleOf(outcome, owners, effect.isolatedBy ?? []) }));
}

/** Returns the verdict of a range of ports, and the rule: rows that are decided by one rule have it in the names of their owners. */
function ruleOf(
  { verdict, decided: byRows, way }: ReturnType<PolicyBytes['decide']>['outcomes'][number],
  owners: ReadonlyMap<bigint, string>,
  isolatedBy: readonly string[],
): Omit<PastVerdict, 'ports'> {
  if (verdict === 'unreadable') return { verdict: 'deny', why: 'unreadable', by: [] };
  if (verdict === 'closed') return { verdict: 'deny', why: 'blocked', by: [] };
  const rule = way.map(({ cookie }) => /\/(?:allow|deny)(?:, \w+)? (.+)$/.exec(owners.get(cookie) ?? '')?.[1]).findLast(Boolean);
  if (byRows === 'none' && verdict === 'allow') return { verdict, why: 'not isolated', by: [] };
  if (byRows === 'allow') return { verdict: 'allow', why: rule ? 'a rule allows it' : 'several rules', by: rule ? [rule] : [] };
  return { verdict, why: 'no rule allows it', by: rule ? [rule] : isolatedBy };
}

function portOf(text: string): { readonly protocol: string; readonly number: number } {
  const [number = '', protocol = 'TCP'] = text.split('/');
  return { protocol, number: Number(number) };
}

function verdictOf(ends: readonly PastEnd[]): PastConnection['verdict'] {
  const byDirection = (['egress', 'ingress'] as const).map((direction) => {
    const verdicts = new Set(ends.filter((end) => end.direction === direction).map(({ verdict }) => verdict));
    return verdicts.size > 1 ? 'mixed' : verdicts.has('deny') ? 'deny' : 'allow';
  });
  if (ends.length === 0 || byDirection.includes('deny')) return 'deny';
  return byDirection.includes('mixed') ? 'mixed' : 'allow';
}

function remarkOn(direction: string, { name, local }: PastParty): readonly string[] {
  return local ? [] : [`The ${direction} policies of ${name} are not decided here, if it was a pod: there is no history of its node`];
}

const verdicts = { allow: 'allowed', deny: 'denied', mixed: 'allowed in part' } as const;

/** Lines of `policy explain --at`, not escaped yet. */
export function pastConnectionLines({ from, to, port, at, verdict, ends, records, remarks }: PastConnection): readonly string[] {
  return [
    `${from} to ${to}${port === undefined ? '' : ` port ${port}`} at ${at}: ${verdicts[verdict]}${remarks.length > 0 ? ', as far as it was recorded' : ''}`,
    ...ends.map(endLine),
    ...(ends.length === 0 ? ['  They had no family of addresses in common.'] : []),
    ...remarks.map((remark) => `${remark}.`),
    `Desired by the agents, by the inputs recorded at ${records.map(({ recorded, node }) => `${recorded} on ${node}`).join(', ')}.`,
    'Not known of that time: what Open vSwitch had, labels, and peers and ports of rules that did not decide.',
  ];
}

function endLine({ direction, pod, node, from, to, ports, verdict, why, by }: PastEnd): string {
  const names = by.join(', ');
  const because = {
    'a rule allows it': `by ${names}`,
    'several rules': 'several rules allow it, whose names are not recorded',
    'no rule allows it': `no rule allows it; isolated by ${by.length > 0 ? names : 'policies whose names are not recorded'}`,
    unreadable: 'a row cannot be read',
    blocked: 'blocked: nothing was known of its policies',
    itself: 'itself',
    'own node': 'own node',
    'not isolated': 'not isolated',
  }[why];
  return `  ${direction} of ${pod} on ${node} (${from} to ${to}), ${ports === 'any' ? 'any port' : ports}: ${verdicts[verdict]}, ${because}`;
}
