import type { OneDirectionView, OnePolicyView, OneRuleView, PeerTermView } from '../../api/policy.ts';
import { count } from '../words.ts';

/** Lines about one policy as the node understands it, not escaped yet. */
export function onePolicyLines({ name, generation, selects, pods, ingress, egress, notUnderstood }: OnePolicyView): string[] {
  return [
    `Policy ${name}, generation ${generation}, selects ${selectsText(selects)}`,
    ...(pods.length === 0 ? ['of this node: no pod'] : [`of this node: ${count(pods.length, 'pod')}`]),
    ...pods.map((pod) => `  ${pod.name}: ${pod.state}`),
    ...directionLines('ingress', ingress),
    ...directionLines('egress', egress),
    ...notUnderstood.map((text) => `not understood, and allows nothing: ${text}`),
  ];
}

function selectsText(selects: string | undefined): string {
  if (selects === undefined) return 'no pod: its selector contradicts itself';
  return selects === '' ? 'every pod of its namespace' : `pods with ${selects}`;
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

function ruleLines(direction: 'ingress' | 'egress', { path, peers, morePeers, ports }: OneRuleView): string[] {
  const word = direction === 'ingress' ? 'from' : 'to';
  if (peers === 'any') return [`  ${path}: ${word} any peer, ${portsOf(ports)}`];
  if (peers.length === 0) return [`  ${path}: ${word} no peer, ${portsOf(ports)}`];
  return [
    `  ${path}: ${portsOf(ports)}, ${word}`,
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
