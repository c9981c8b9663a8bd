import { parseCidr } from '../../base/net/ip.ts';
import type {
  ClusterNetworkPolicy,
  ClusterPods,
  ClusterPolicyPeer,
  ClusterPolicyProtocol,
  ClusterPolicyRule,
} from '../../kubernetes/resources/cluster-network-policy.ts';
import type { ClusterTier, PolicyDirection } from '../matrix/matrix.ts';
import type { IntentRule, PortSpan } from './intent.ts';
import type { MentionedNames } from './kinds.ts';
import { compareTexts, matchesLabels, type PodLabels, type Selector, selectorOf } from './selector.ts';
import { anyPod, blockTerm, nodesTerm, podsTerm, type Term } from './term.ts';

/** ClusterNetworkPolicy in normal form, as the compiler needs it. */
export interface ClusterIntent {
  /** Name of the policy. */
  readonly key: string;
  readonly tier: ClusterTier;
  readonly priority: number;
  readonly createdAt: string;
  /** Pods of the policy; undefined if it selects nothing. */
  readonly subject: { readonly namespaces: Selector; readonly pods: Selector } | undefined;
  /** Rules for ingress; empty if the policy does not concern this direction. */
  readonly ingress: readonly ClusterIntentRule[];
  readonly egress: readonly ClusterIntentRule[];
  /** Answer to clients that its rules deny; absent: as the node is configured. */
  readonly denied?: 'reject' | 'drop';
}

export interface ClusterIntentRule extends IntentRule {
  readonly action: ClusterPolicyRule['action'];
  /** True if the rule selects pods by labels, of their own or of their namespace: also if its requirements contradict each other. */
  readonly readsLabels: boolean;
}

export function clusterIntent(policy: ClusterNetworkPolicy): ClusterIntent {
  const { name, tier, priority, createdAt, subject } = policy;
  return {
    key: name,
    tier,
    priority,
    createdAt,
    subject: subject && selectorsOf(subject),
    ingress: policy.ingress.map((rule, at) => ruleOf('ingress', rule, at)),
    egress: policy.egress.map((rule, at) => ruleOf('egress', rule, at)),
    ...(policy.denied && { denied: policy.denied }),
  };
}

/** Order of policies in a tier: priority, then age, then name. */
export function byPrecedence(a: ClusterIntent, b: ClusterIntent): number {
  return a.priority - b.priority || compareTexts(a.createdAt, b.createdAt) || compareTexts(a.key, b.key);
}

/** Reports whether a policy applies to a pod. @param namespace labels of its namespace; undefined if it is not known */
export function appliesTo({ subject }: ClusterIntent, namespace: PodLabels | undefined, pod: PodLabels): boolean {
  return subject !== undefined && mayApplyIn(subject.namespaces, namespace, false) && matchesLabels(subject.pods, pod);
}

/** Reports whether a policy may apply to pods of a namespace: also if the labels of the namespace are not known. */
export function mayApplyTo({ subject }: ClusterIntent, namespace: PodLabels | undefined): boolean {
  return subject !== undefined && mayApplyIn(subject.namespaces, namespace, true);
}

function mayApplyIn(namespaces: Selector, labels: PodLabels | undefined, isUnknown: boolean): boolean {
  return labels === undefined ? namespaces.length === 0 || isUnknown : matchesLabels(namespaces, labels);
}

/** Returns the labels and port names that a policy uses to select its peers. */
export function clusterMentionedNames({ ingress, egress }: ClusterNetworkPolicy): MentionedNames {
  const peers = [...ingress, ...egress].flatMap((rule) => (rule.peers === 'any' ? [] : rule.peers));
  return {
    labels: new Set(peers.flatMap((peer) => ('pods' in peer ? peer.pods.map(({ key }) => key) : []))),
    ports: new Set(egress.flatMap(({ protocols }) => portNamesOf(protocols))),
  };
}

function ruleOf(direction: PolicyDirection, { action, peers, protocols }: ClusterPolicyRule, at: number): ClusterIntentRule {
  return {
    path: `spec.${direction}[${at}]`,
    action,
    readsLabels: peers !== 'any' && peers.some((peer) => 'pods' in peer && peer.namespaces.length + peer.pods.length > 0),
    peers: peers === 'any' ? 'any' : termsOf(peers),
    ports: protocols === 'any' ? 'any' : protocols.flatMap(spanOf),
    portNames: portNamesOf(protocols),
  };
}

/** Merges all networks of a rule into one term: no rule distinguishes them. */
function termsOf(peers: readonly ClusterPolicyPeer[]): readonly Term[] {
  const networks = peers.flatMap((peer) => ('networks' in peer ? peer.networks : []));
  const block = networks.length > 0 ? blockTerm(networks.map((cidr) => ({ cidr: parseCidr(cidr), except: [] }))) : undefined;
  const others = peers.flatMap((peer): readonly Term[] => {
    if ('networks' in peer) return [];
    if ('nodes' in peer) return selectedNodes(peer.nodes);
    return selectedPods(peer);
  });
  const terms = [...(block ? [block] : []), ...others];
  return [...new Map(terms.map((term) => [term.text, term])).values()];
}

function selectedNodes(nodes: ClusterPods['pods']): readonly Term[] {
  const selector = selectorOf(nodes);
  return selector ? [nodesTerm(selector)] : [];
}

function selectedPods(selected: ClusterPods): readonly Term[] {
  const selectors = selectorsOf(selected);
  if (!selectors) return [];
  const { namespaces, pods } = selectors;
  return [namespaces.length + pods.length === 0 ? anyPod : podsTerm(namespaces, pods)];
}

function selectorsOf(selected: ClusterPods): ClusterIntent['subject'] {
  const [namespaces, pods] = [selectorOf(selected.namespaces), selectorOf(selected.pods)];
  return namespaces && pods && { namespaces, pods };
}

function spanOf(each: ClusterPolicyProtocol): readonly PortSpan[] {
  return 'portName' in each ? [] : [each];
}

/** Returns the names with each protocol: that of the container port counts. */
function portNamesOf(protocols: ClusterPolicyRule['protocols']): readonly string[] {
  const names = protocols === 'any' ? [] : protocols.flatMap((each) => ('portName' in each ? [each.portName] : []));
  return [...new Set(names)].sort().flatMap((name) => ['TCP', 'UDP', 'SCTP'].map((protocol) => `${name}/${protocol}`));
}
