import type { DirectionPolicyView, PodPolicyView, PolicyRuleView } from '../../api/policy.ts';
import { count } from '../words.ts';

/** Maximum number of peers of a rule in a line. */
const PEERS_MAX = 4;

/** Lines about the effect of policies on a pod, not escaped yet. */
export function podPolicyLines({ name, addresses, ingress, egress }: PodPolicyView): string[] {
  return [`Pod ${name} (${addresses.join(', ')})`, ...directionLines('ingress', ingress), ...directionLines('egress', egress)];
}

function directionLines(direction: 'ingress' | 'egress', view: DirectionPolicyView): string[] {
  const more = view.moreRules > 0 ? [`  and ${count(view.moreRules, 'more rule')}`] : [];
  switch (view.state) {
    case 'free':
      return [`${direction}: free, no policy isolates it`];
    case 'closed':
      return [`${direction}: blocked except for its own node: ${view.why ?? 'unknown pod'}`];
    case 'suspended':
      return [`${direction}: suspended, nothing is denied ${view.why ?? 'for a while'}`];
    case 'as before':
      return [`${direction}: unchanged, the flows of the bridge stay in force until its policies and labels are known`];
    case 'isolated':
      return [
        `${direction}: isolated by ${view.isolatedBy.join(', ')}`,
        ...(view.rules.length === 0 ? ['  no rule allows anything'] : view.rules.map((rule) => `  ${ruleText(direction, rule)}`)),
        ...more,
      ];
  }
}

function ruleText(direction: 'ingress' | 'egress', { name, peers, morePeers, ports }: PolicyRuleView): string {
  const rest = peers.length - PEERS_MAX + morePeers;
  const others = rest > 0 ? ` and ${rest} more` : '';
  const who = peers.length === 0 ? 'any peer' : `${peers.slice(0, PEERS_MAX).join(', ')}${others}`;
  return `${name}: ${direction === 'ingress' ? 'from' : 'to'} ${who}, ${ports.length === 0 ? 'any port' : ports.join(', ')}`;
}
