import type { ClusterTier, PolicyDirection } from '../matrix/matrix.ts';
import type { ClusterIntent, ClusterIntentRule } from './cluster-intent.ts';
import { type SubjectRule, type SubjectRules, subjectRule } from './subject-rules.ts';
import { unknownPod } from './term.ts';

/**
 * Treatment of pods whose labels are not known by rules that deny or pass pods by labels: they deny such pods (`closed`), or do not match
 * them (`open`).
 */
export type UnknownPeers = 'closed' | 'open';

/**
 * Returns the rules of a pod in one direction and tier of cluster policies.
 *
 * @param policies policies of the tier that apply to the pod, in their order
 * @param ports ports of the pod by `name/protocol`
 * @param unknownPeers treatment of pods whose labels are not known by rules that deny or pass
 * @returns undefined if none has rules for this direction
 */
export function clusterRules(
  direction: PolicyDirection,
  tier: ClusterTier,
  policies: readonly ClusterIntent[],
  ports: Readonly<Record<string, number>>,
  unknownPeers: UnknownPeers = 'closed',
): SubjectRules | undefined {
  const applied = policies.filter((policy) => policy[direction].length > 0);
  if (applied.length === 0) return undefined;
  const all = applied.flatMap((policy) => policy[direction].flatMap((rule) => rulesOf(direction, policy, rule, ports, unknownPeers)));
  const rules = all.filter((rule) => rule.namedPeers.length > 0 || (rule.peers.length > 0 && rule.ports.length > 0));
  const isolatedBy = applied.map(({ key }) => key);
  return { text: textOf(tier, isolatedBy, rules), tier, isolatedBy, rules };
}

/** Returns a rule. If it denies or passes pods by their labels, a rule before it denies pods whose labels are not known. */
function rulesOf(
  direction: PolicyDirection,
  { key, denied }: Pick<ClusterIntent, 'key' | 'denied'>,
  rule: ClusterIntentRule,
  own: Readonly<Record<string, number>>,
  unknownPeers: UnknownPeers,
): readonly SubjectRule[] {
  const { action } = rule;
  const known: SubjectRule = {
    ...subjectRule(direction, key, rule, own),
    action,
    ...(denied && action === 'deny' && { denial: denied }),
  };
  const namesPorts = direction === 'egress' && rule.portNames.length > 0;
  const readsPods = rule.readsLabels || (namesPorts && rule.peers !== 'any' && rule.peers.some(({ is }) => is === 'any pod'));
  if (action === 'accept' || !readsPods || unknownPeers === 'open') return [known];
  // The port that such a pod has under a name is not known.
  return [{ name: known.name, peers: [unknownPod], ports: namesPorts ? 'any' : known.ports, action: 'deny', namedPeers: [] }, known];
}

function textOf(tier: ClusterTier, isolatedBy: readonly string[], rules: readonly SubjectRule[]): string {
  const terms = (all: SubjectRule['peers']) => (all === 'any' ? all : all.map(({ text }) => text));
  return JSON.stringify([
    tier,
    isolatedBy,
    rules.map(({ name, action, peers, ports, namedPeers, denial }) => [
      name,
      action,
      terms(peers),
      ports,
      terms(namedPeers),
      ...(denial ? [denial] : []),
    ]),
  ]);
}
