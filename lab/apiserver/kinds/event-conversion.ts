import type { ApiObject } from '../object/api-object.ts';
import { defined } from '../object/json.ts';

/** Fields of events.k8s.io/v1 and their names in core/v1, the stored form. */
const names: readonly (readonly [newName: string, coreName: string])[] = [
  ['regarding', 'involvedObject'],
  ['note', 'message'],
  ['reportingController', 'reportingComponent'],
  ['deprecatedSource', 'source'],
  ['deprecatedFirstTimestamp', 'firstTimestamp'],
  ['deprecatedLastTimestamp', 'lastTimestamp'],
  ['deprecatedCount', 'count'],
];

export function eventToCore(event: ApiObject): ApiObject {
  return renamed(event, names, 'v1');
}

export function eventFromCore(event: ApiObject): ApiObject {
  return renamed(
    event,
    names.map(([newName, coreName]) => [coreName, newName] as const),
    'events.k8s.io/v1',
  );
}

function renamed(event: ApiObject, pairs: readonly (readonly [string, string])[], apiVersion: string): ApiObject {
  const result: ApiObject = { ...event, apiVersion };
  for (const [from, to] of pairs) {
    result[to] = event[from];
    delete result[from];
  }
  return defined(result);
}
