import type { InsidePod } from '../../dataplane/targets/links/links-target.ts';
import { parseHostInterfaceAlias } from './attachment-names.ts';

/** Maximum number of pods that are named. */
const NAMED_MAX = 20;

/** Returns descriptions of changes found inside pods, one sentence for each pod. */
export function podWarnings(inside: ReadonlyMap<string, InsidePod>, repairPods: boolean): readonly string[] {
  const why = repairPods ? '' : '; repairPods is false, so that it stays';
  const named = [...inside.values()].slice(0, NAMED_MAX).map((pod) => `in pod ${nameOf(pod)}: ${pod.differs.join(', ')}${why}`);
  const more = inside.size - named.length;
  return more > 0 ? [...named, `${more} more pods differ from their original configuration${why}`] : named;
}

/** Returns `namespace/name`, or the container if a runtime without Kubernetes made it. */
function nameOf({ link: { alias, hostName } }: InsidePod): string {
  const [whose = hostName] = alias.split(' ');
  return whose === '-/-' ? (parseHostInterfaceAlias(alias)?.containerId ?? hostName) : whose;
}
