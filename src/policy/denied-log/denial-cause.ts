import type { Ip } from '../../base/net/ip.ts';
import { serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import { interpret } from '../matrix/interpret.ts';
import type { PolicyMatrix } from '../matrix/matrix.ts';
import type { DeniedAttempt } from './denied-packet.ts';

const tierNames = { admin: 'Admin', baseline: 'Baseline' } as const;

/** Rule of a ClusterNetworkPolicy. */
interface ClusterRule {
  /** `name spec.ingress[2]`. */
  readonly name: string;
  readonly tier: 'Admin' | 'Baseline';
}

/** Returns the rule of a ClusterNetworkPolicy that denies a packet now; undefined if none does. @param pod `namespace/name` */
export function denyingClusterRule(matrix: PolicyMatrix, pod: string, attempt: DeniedAttempt): ClusterRule | undefined {
  const { direction, own, peer, protocol, ports } = attempt;
  const throughService = isTranslatedSelf(peer) || own.text === peer.text;
  const address = throughService ? own.text : peer.text;
  const port = ports ? { port: ports.destination } : {};
  const answer = interpret(matrix, { direction, pod, address, protocol, throughService, ...port });
  if (answer.why !== 'decision' || answer.verdict !== 'deny' || !answer.tier) return undefined;
  const [name = ''] = answer.by;
  return { name, tier: tierNames[answer.tier] };
}

/** Reports whether the other end is the pod itself, translated by a Service. */
export function isTranslatedSelf(peer: Ip): boolean {
  return peer.text === serviceNextHop[peer.family].text;
}
