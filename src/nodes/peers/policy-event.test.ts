import { expect, it } from 'vitest';
import type { KubeEvent } from '../../kubernetes/client/events.ts';
import { type NetworkPolicy, networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { followPolicies } from './policy-event.ts';

const projected = (name: string, spec: object): NetworkPolicy => {
  const policy = networkPolicies.project({ metadata: { namespace: 'shop', name, uid: name, generation: 2 }, spec });
  if (!policy) throw new Error('no policy');
  return policy;
};

it('posts events about unsupported fields of policies, and about nothing else', () => {
  const objects = new Map([
    ['shop/fine', projected('fine', { podSelector: {} })],
    ['shop/odd', projected('odd', { podSelector: {}, ingress: [{ ports: [{ protocol: 'tcp' }] }] })],
  ]);
  const posted: KubeEvent[] = [];
  let changed: ((keys: ReadonlySet<string>) => void) | undefined;
  followPolicies({
    policies: {
      get: (key) => objects.get(key),
      entries: () => objects.entries(),
      subscribe: (listener) => {
        changed = listener;
        return () => undefined;
      },
    },
    peers: { peers: () => [].values() },
    nodeName: 'n1',
    events: { post: (event) => void posted.push(event) },
  });
  const said = () => posted.splice(0).map(({ reason, about, message }) => `${about.name} ${reason}: ${message}`);
  expect(said()).toEqual([expect.stringMatching(/^odd NotUnderstood: .*spec\.ingress\[0\]\.ports\[0\]\.protocol: .*\("tcp"\)/)]);
  objects.set('shop/odd', projected('odd', { podSelector: {} }));
  changed?.(new Set(['shop/odd', 'shop/gone']));
  expect(said()).toEqual([]);
});
