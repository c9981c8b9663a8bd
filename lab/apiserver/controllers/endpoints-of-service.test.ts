import { expect, it } from 'vitest';
import type { ApiObject } from '../object/api-object.ts';
import { groupEndpoints } from './endpoints-of-service.ts';
import { TriggerTimes } from './trigger-times.ts';

function service(spec: object): ApiObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', uid: 'web', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { ports: [{ port: 80 }], ...spec },
  };
}

function pod(name: string, { node = 'n1', ready = 'True', since = '2026-01-01T00:00:05Z', going = false } = {}): ApiObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: since, ...(going && { deletionTimestamp: since }) },
    spec: { nodeName: node, containers: [] },
    status: { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }], conditions: [{ type: 'Ready', status: ready, lastTransitionTime: since }] },
  };
}

const endpointOf = (spec: object, of: ApiObject, zone: string | undefined = 'a') =>
  groupEndpoints(service(spec), [of], 'IPv4', () => zone)[0]?.endpoints[0];

it.each([
  [undefined, 'a', undefined],
  ['PreferClose', 'a', { forZones: [{ name: 'a' }] }],
  ['PreferSameZone', 'a', { forZones: [{ name: 'a' }] }],
  ['PreferSameZone', undefined, undefined],
  ['PreferSameNode', 'a', { forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] }],
  ['PreferSameNode', undefined, { forNodes: [{ name: 'n1' }] }],
])('hints for trafficDistribution %s in zone %s', (trafficDistribution, zone, hints) => {
  expect(groupEndpoints(service({ trafficDistribution }), [pod('p')], 'IPv4', () => zone)[0]?.endpoints[0]?.hints).toEqual(hints);
});

it('publishes not-ready endpoints only with publishNotReadyAddresses, and with serving false', () => {
  const unready = pod('p', { ready: 'False' });
  expect(endpointOf({}, unready)?.conditions).toEqual({ ready: false, serving: false, terminating: false });
  expect(endpointOf({ publishNotReadyAddresses: true }, unready)?.conditions).toEqual({ ready: true, serving: false, terminating: false });
});

it('keeps a terminating pod as serving until it is not ready', () => {
  expect(endpointOf({}, pod('p', { going: true }))?.conditions).toEqual({ ready: false, serving: true, terminating: true });
  expect(endpointOf({ publishNotReadyAddresses: true }, pod('p', { going: true }))?.conditions).toMatchObject({ ready: true });
});

it('returns the earliest change since the last call, and none for the end of a pod', () => {
  const times = new TriggerTimes();
  const [early, late] = [pod('early', { since: '2026-01-01T00:00:07Z' }), pod('late', { since: '2026-01-01T00:00:09Z' })];
  expect(times.next('default/web', service({}), [])).toBe('2026-01-01T00:00:00Z');
  expect(times.next('default/web', service({}), [late, early])).toBe('2026-01-01T00:00:07Z');
  expect(times.next('default/web', service({}), [late])).toBeUndefined();
  expect(times.next('default/web', service({}), [pod('late', { since: '2026-01-01T00:01:00Z' })])).toBe('2026-01-01T00:01:00Z');
});
