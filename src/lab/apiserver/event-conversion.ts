import { defined } from './json.ts';
import type { KubeObject } from './kube-object.ts';

/** Fields of events.k8s.io/v1 and what core/v1, the stored form, calls them. */
const names: readonly (readonly [newName: string, coreName: string])[] = [
  ['regarding', 'involvedObject'],
  ['note', 'message'],
  ['reportingController', 'reportingComponent'],
  ['deprecatedSource', 'source'],
  ['deprecatedFirstTimestamp', 'firstTimestamp'],
  ['deprecatedLastTimestamp', 'lastTimestamp'],
  ['deprecatedCount', 'count'],
];

export function eventToCore(event: KubeObject): KubeObject {
  return renamed(event, names, 'v1');
}

export function eventFromCore(event: KubeObject): KubeObject {
  return renamed(
    event,
    names.map(([newName, coreName]) => [coreName, newName] as const),
    'events.k8s.io/v1',
  );
}

function renamed(event: KubeObject, pairs: readonly (readonly [string, string])[], apiVersion: string): KubeObject {
  const result: KubeObject = { ...event, apiVersion };
  for (const [from, to] of pairs) {
    result[to] = event[from];
    delete result[from];
  }
  return defined(result);
}
