import type { ConnectionPolicyView } from '../../api/policy.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { podName } from '../../pods/ipam/lease.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import { associationsOfOneSender, readFullShares } from '../diagnose/entries/sctp-associations.ts';
import { type ApiAnswer, itemsAnswer, json } from './answer.ts';
import { type AskedConnection, type ConnectionParty, explainConnection } from './policy/explain-connection.ts';
import { oneClusterPolicyView, onePolicyView, type PolicyTermsInForce } from './policy/one-policy.ts';
import { nodePolicyViews, type PolicyStanding, podPolicyView } from './policy/policed-pods.ts';

interface PolicedNode {
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly policy: PolicyTermsInForce & Pick<PolicyController, 'pods' | 'leftOutAt'>;
  readonly environment: Pick<NodeEnvironment, 'denied'>;
}

interface PoliciesByName<P> {
  entries(): Iterable<readonly [string, P]>;
  get(key: string): P | undefined;
}

export interface PolicyPort {
  readonly openflow: Pick<OpenFlowConnection, 'dumpFlows'>;
  readonly turns: LoopTurns;
  readonly sources: {
    readonly networkPolicies: { readonly replica: PoliciesByName<NetworkPolicy> };
    readonly clusterNetworkPolicies: { readonly replica: PoliciesByName<ClusterNetworkPolicy> };
    readonly policyPods: { readonly replica: { get(key: string): PolicyPod | undefined } };
  };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => PolicedNode;
}

/** `?name=NAMESPACE/NAME`. @throws SeineError `INVALID_INPUT` for a pod that this node does not have */
export function podPolicy(port: PolicyPort, query: URLSearchParams): ApiAnswer {
  const node = port.running();
  const name = query.get('name') ?? '';
  const leases = node.ipam.leases().filter((lease) => lease.state === 'allocated' && podName(lease) === name);
  if (leases.length === 0) throw new SeineError('INVALID_INPUT', `this node has no pod ${JSON.stringify(name)}; run this on its node`);
  const addresses = leases.flatMap((lease) => lease.addresses.map(({ ip }) => ip.text));
  return json(podPolicyView(inForce(node), name, addresses, standingOf(node, name)));
}

export function policies({ running, sources, turns }: PolicyPort): ApiAnswer {
  const { networkPolicies, clusterNetworkPolicies } = sources;
  const known = { policies: networkPolicies.replica.entries(), clusterPolicies: clusterNetworkPolicies.replica.entries() };
  return itemsAnswer(nodePolicyViews(inForce(running()), known), turns);
}

/** `?name=NAMESPACE/NAME`; `?name=NAME` for a ClusterNetworkPolicy. @throws SeineError `INVALID_INPUT` for an unknown policy */
export async function onePolicy({ running, sources, turns }: PolicyPort, query: URLSearchParams): Promise<ApiAnswer> {
  const node = running();
  const name = query.get('name') ?? '';
  const common = { standingOf: (pod: string) => standingOf(node, pod), turns };
  const clusterPolicy = name.includes('/') ? undefined : sources.clusterNetworkPolicies.replica.get(name);
  if (clusterPolicy) return json(await oneClusterPolicyView(inForce(node), { policy: clusterPolicy, ...common }));
  const policy = sources.networkPolicies.replica.get(name);
  if (!policy) throw new SeineError('INVALID_INPUT', `no policy is known by the name ${JSON.stringify(name)}`);
  return json(await onePolicyView(inForce(node), { policy, ...common }));
}

/** Returns how policies decide a traced connection; undefined if neither end is a pod of this node, or the protocol has no ports. */
export function tracedPolicy(port: PolicyPort, from: string, to: string, asked: string): ConnectionPolicyView | undefined {
  const node = port.running();
  const [source, destination] = [partyOf(port, node, from), partyOf(port, node, to)];
  if (!source.local && !destination.local) return undefined;
  const wanted = /^\d+\/(?:TCP|UDP|SCTP)$/.test(asked) ? portOf(asked) : undefined;
  const { denied } = node.environment;
  return explainConnection(node.policy, { from: source, to: destination, ...(wanted && { port: wanted }), ...(denied && { denied }) });
}

/** `?from=POD|ADDRESS&to=POD|ADDRESS&port=80/TCP`; the port is optional. @throws SeineError `INVALID_INPUT` */
export async function policyExplanation(port: PolicyPort, query: URLSearchParams, signal: AbortSignal): Promise<ApiAnswer> {
  const node = port.running();
  const [from, to] = [partyOf(port, node, query.get('from') ?? ''), partyOf(port, node, query.get('to') ?? '')];
  if (!from.local && !to.local) throw new SeineError('INVALID_INPUT', 'neither is a pod of this node; run this on the node of one of them');
  const asked = query.get('port');
  const wanted = asked === null ? undefined : portOf(asked);
  const { denied } = node.environment;
  const ofNode = denied ? { denied } : {};
  const view = explainConnection(node.policy, { from, to, ...(wanted && { port: wanted }), ...ofNode });
  if (wanted?.protocol !== 'SCTP') return json(view);
  const full = await readFullShares(port.openflow, signal);
  const isFull = from.addresses.some((address) => full.includes(address));
  if (!isFull) return json(view);
  // For an association that the bridge has not learned, replies are decided like packets that open one.
  const answers = explainConnection(node.policy, { from: to, to: from });
  const verdict = view.verdict === 'allow' && answers.verdict !== 'allow' ? 'mixed' : view.verdict;
  return json({ ...view, verdict, remarks: [...view.remarks, usedUp(from.name)] });
}

function usedUp(name: string): string {
  return `${name} has used up its share of ${associationsOfOneSender} SCTP associations: answers to further ones are denied where policies isolate an end, until older ones end`;
}

function partyOf({ sources }: PolicyPort, node: PolicedNode, name: string): ConnectionParty {
  const ip = isIp(name) ? parseIp(name).text : undefined;
  const lease = node.ipam
    .leases()
    .find(
      (each) =>
        each.state === 'allocated' && (ip === undefined ? podName(each) === name : each.addresses.some((own) => own.ip.text === ip)),
    );
  if (lease) {
    const local = { pod: podName(lease), standing: standingOf(node, podName(lease)) };
    return { name, addresses: ip === undefined ? lease.addresses.map((each) => each.ip.text) : [ip], local };
  }
  if (ip !== undefined) return { name, addresses: [ip] };
  const pod = sources.policyPods.replica.get(name);
  if (!pod || pod.podIps.length === 0)
    throw new SeineError('INVALID_INPUT', `no pod with an address is known by the name ${JSON.stringify(name)}`);
  return { name, addresses: pod.podIps, ...(pod.nodeName === undefined ? {} : { elsewhere: { node: pod.nodeName } }) };
}

function portOf(text: string): NonNullable<AskedConnection['port']> {
  const [, digits = '', protocol] = /^(\d{1,5})\/(TCP|UDP|SCTP)$/.exec(text) ?? [];
  const number = Number(digits);
  if ((protocol !== 'TCP' && protocol !== 'UDP' && protocol !== 'SCTP') || number < 1 || number > 65_535)
    throw new SeineError('INVALID_INPUT', `port: ${JSON.stringify(text)} is not of the form 80/TCP`);
  return { protocol, number };
}

/** @param pod `namespace/name` */
function standingOf({ policy }: PolicedNode, pod: string): PolicyStanding {
  const { is = 'undecided', why = 'nothing is known of it' } = policy.pods().get(pod) ?? {};
  if (is === 'undecided') return undefined;
  return is === 'closed' || is === 'suspended' ? { is, why } : { is };
}

function inForce({ policy }: PolicedNode): PolicyTermsInForce {
  return { matrix: policy.matrix, rulesOf: (...of) => policy.rulesOf(...of), podsOf: (...of) => policy.podsOf(...of) };
}
