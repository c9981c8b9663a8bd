import { keyOf } from '../reach/objects.ts';
import type { PodObject, PolicyPortObject } from '../verify/reference/objects.ts';
import type { LintFinding } from './findings.ts';
import { type CheckedPolicy, podsOfPeer, subjectsOf } from './matching.ts';
import { type PlacedRule, rulesOf } from './rules-of.ts';

/** P08: names of ports that no destination of the rule has. Such an entry matches nothing. */
export function portNameFindings(checked: CheckedPolicy): readonly LintFinding[] {
  return rulesOf(checked.policy).flatMap((placed) => {
    const destinations = destinationsOf(checked, placed);
    if (destinations === 'any' || destinations.length === 0) return [];
    return (placed.rule.ports ?? []).flatMap((port, at): readonly LintFinding[] => {
      if (typeof port.port !== 'string' || destinations.some((pod) => hasPort(pod, port))) return [];
      const message = `No destination has a ${port.protocol ?? 'TCP'} port named ${JSON.stringify(port.port)}: the entry matches nothing. Name a container port, or write its number.`;
      return [{ code: 'P08', level: 'warning', policy: keyOf(checked.policy), field: `${placed.field}.ports[${at}].port`, message }];
    });
  });
}

/** Returns the pods whose ports count: the policy's own for ingress, the peers for egress. */
function destinationsOf(checked: CheckedPolicy, { direction, peers }: PlacedRule): 'any' | readonly PodObject[] {
  if (direction === 'ingress') return subjectsOf(checked);
  return peers.length === 0 ? [...checked.pods.values()].flat() : peers.flatMap(({ peer }) => podsOfPeer(checked, peer));
}

function hasPort({ spec }: PodObject, { port, protocol }: PolicyPortObject): boolean {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  return [...spec.containers, ...sidecars].some(({ ports }) =>
    (ports ?? []).some((each) => each.name === port && (each.protocol ?? 'TCP') === (protocol ?? 'TCP')),
  );
}
