import type { PodStatus } from 'kubernetes-types/core/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';

/** On a slice: when the change it carries happened, so that proxies can measure how long it took to have an effect. */
export const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';

/** What each Service's slices were last made from: RFC 3339 times by pod, and its own creation. */
export class TriggerTimes {
  readonly #before = new Map<string, ReadonlyMap<string, string>>();

  /**
   * The earliest of the changes since this was last asked about the Service. Undefined if there was none that has a time: the end of
   * a pod has none.
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
