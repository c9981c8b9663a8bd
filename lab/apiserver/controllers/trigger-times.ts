import type { PodStatus } from 'kubernetes-types/core/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';

/** Annotation of a slice: time of the change it carries, so that proxies can measure their programming latency. */
export const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';

/** Sources of each Service's slices: RFC 3339 times by pod, and the Service's creation. */
export class TriggerTimes {
  readonly #before = new Map<string, ReadonlyMap<string, string>>();

  /**
   * The earliest change since the last call for the Service. Undefined if no change has a time: the end of a pod has none.
   *
   * @param pods those the Service selects
   */
  next(key: string, service: ApiObject, pods: readonly ApiObject[]): string | undefined {
    const before = this.#before.get(key);
    const now = new Map(pods.flatMap((pod): [string, string][] => timeOf(pod)));
    const { creationTimestamp, uid = '' } = service.metadata;
    if (creationTimestamp !== undefined) now.set(`Service ${uid}`, creationTimestamp);
    this.#before.set(key, now);
    const changed = Array.from(now).flatMap(([name, time]) => (before?.get(name) === time ? [] : time));
    return changed.toSorted((a, b) => Date.parse(a) - Date.parse(b))[0];
  }

  forget(key: string): void {
    this.#before.delete(key);
  }
}

function timeOf({ metadata: { uid = '' }, status }: ApiObject): [string, string][] {
  const ready = ((status ?? {}) as PodStatus).conditions?.find(({ type }) => type === 'Ready');
  return ready?.lastTransitionTime === undefined ? [] : [[`Pod ${uid}`, ready.lastTransitionTime]];
}
