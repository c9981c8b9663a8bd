import type { ClusterRank, OneDirectionView, OnePolicyView, OneRuleView, PeerTermView } from '../../api/policy.ts';
import { count } from '../words.ts';

/** Lines about one policy as the node understands it, not escaped yet. */
export function onePolicyLines({ name, cluster, generation, selects, pods, ingress, egress, notUnderstood }: OnePolicyView): string[] {
  const what = cluster ? `ClusterNetworkPolicy ${name}, tier ${cluster.tier}, priority ${cluster.priority}` : `Policy ${name}`;
  return [
    `${what}, generation ${generation}, selects ${selectsText(selects, cluster)}`,
    ...(pods.length === 0 ? ['of this node: no pod'] : [`of this node: ${count(pods.length, 'pod')}`]),
    ...pods.map((pod) => `  ${pod.name}: ${pod.state}`),
    ...(cluster ? clusterLines('ingress', ingress) : directionLines('ingress', ingress)),
    ...(cluster ? clusterLines('egress', egress) : directionLines('egress', egress)),
    ...notUnderstood.map((text) => (cluster ? `not understood, and fails closed: ${text}` : `not understood, and allows nothing: ${text}`)),
  ];
}

function selectsText(selects: string | undefined, cluster: ClusterRank | undefined): string {
  if (selects === undefined)
    return cluster ? 'no pod: its subject contradicts itself or is not understood' : 'no pod: its selector contradicts itself';
  return selects === '' ? `every pod of ${cluster ? 'the cluster' : 'its namespace'}` : `pods with ${selects}`;
}

function directionLines(direction: 'ingress' | 'egress', view: OneDirectionView | undefined): string[] {
  if (!view) return [`${direction}: not isolated by it`];
  if (view.rules.length === 0) return [`${direction}: isolated, no rule allows anything`];
  return [
    `${direction}: isolated, but for`,
    ...view.rules.flatMap((rule) => ruleLines(direction, rule)),
    ...(view.moreRules > 0 ? [`  and ${count(view.moreRules, 'more rule')}`] : []),
  ];
}

function clusterLines(direction: 'ingress' | 'egress', view: OneDirectionView | undefined): string[] {
  if (!view) return [`${direction}: no rules`];
  return [
    `${direction}: the first rule that matches decides`,
    ...view.rules.flatMap((rule) => ruleLines(direction, rule)),
    ...(view.moreRules > 0 ? [`  and ${count(view.moreRules, 'more rule')}`] : []),
  ];
}

function ruleLines(direction: 'ingress' | 'egress', { path, action, peers, morePeers, ports }: OneRuleView): string[] {
  const word = direction === 'ingress' ? 'from' : 'to';
  const rule = action === undefined ? path : `${path} ${action}`;
  if (peers === 'any') return [`  ${rule}: ${word} any peer, ${portsOf(ports)}`];
  if (peers.length === 0) return [`  ${rule}: ${word} no peer, ${portsOf(ports)}`];
  return [
    `  ${rule}: ${portsOf(ports)}, ${word}`,
    ...peers.map((peer) => `    ${peerText(peer)}`),
    ...(morePeers > 0 ? [`    and ${count(morePeers, 'more peer')}`] : []),
  ];
}

function portsOf(ports: OneRuleView['ports']): string {
  if (ports === 'any') return 'any port';
  return ports.length === 0 ? 'no port' : ports.join(', ');
}

function peerText({ text, pods, addresses }: PeerTermView): string {
  if (addresses !== undefined) return `${text} (${addresses === '1' ? '1 address' : `${addresses} addresses`})`;
  return pods === undefined ? `${text} (not resolved: no rule of a pod here uses it)` : `${text} (${count(pods, 'pod')})`;
}
