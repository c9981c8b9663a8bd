import { expect, it } from 'vitest';
import type { KubeEvent } from '../../kubernetes/client/events.ts';
import { type Namespace, namespaces } from '../../kubernetes/resources/namespace.ts';
import { type NetworkPolicy, networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { followNamespaces, followPolicies } from './policy-event.ts';

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
  const { source: policies, changed } = sourceOf(objects);
  const { notices, posted } = postedEvents();
  followPolicies({ policies, ...notices });
  expect(posted()).toEqual([expect.stringMatching(/^odd NotUnderstood: .*spec\.ingress\[0\]\.ports\[0\]\.protocol: .*\("tcp"\)/)]);
  objects.set('shop/odd', projected('odd', { podSelector: {} }));
  changed('shop/odd', 'shop/gone');
  expect(posted()).toEqual([]);
});

it('posts events about invalid answers to denied clients, truncated and escaped', () => {
  const namespace = (name: string, denied: string): Namespace => {
    const found = namespaces.project({ metadata: { name, uid: name, annotations: { 'seine.dev/denied': denied } } });
    if (!found) throw new Error('no namespace');
    return found;
  };
  const objects = new Map([
    ['fine', namespace('fine', 'reject')],
    ['odd', namespace('odd', `Reject\n${'x'.repeat(100)}`)],
  ]);
  const { source, changed } = sourceOf(objects);
  const { notices, posted } = postedEvents();
  followNamespaces({ namespaces: source, ...notices });
  expect(posted()).toEqual([
    `odd DeniedAnswerInvalid: annotation seine.dev/denied is "Reject\\n${'x'.repeat(25)}", which is not one of drop, reject: it is ignored`,
  ]);
  objects.set('odd', namespace('odd', 'drop'));
  objects.set('fine', namespace('fine', ''));
  changed('odd', 'fine', 'gone');
  expect(posted()).toEqual([
    'fine DeniedAnswerInvalid: annotation seine.dev/denied is "", which is not one of drop, reject: it is ignored',
  ]);
});

function sourceOf<T>(objects: ReadonlyMap<string, T>) {
  let listener: ((keys: ReadonlySet<string>) => void) | undefined;
  const source = {
    get: (key: string) => objects.get(key),
    entries: () => objects.entries() as MapIterator<[string, T]>,
    subscribe: (each: (keys: ReadonlySet<string>) => void) => {
      listener = each;
      return () => undefined;
    },
  };
  return { source, changed: (...keys: string[]) => listener?.(new Set(keys)) };
}

function postedEvents() {
  const events: KubeEvent[] = [];
  const notices = { peers: { peers: () => [].values() }, nodeName: 'n1', events: { post: (event: KubeEvent) => void events.push(event) } };
  return { notices, posted: () => events.splice(0).map(({ reason, about, message }) => `${about.name} ${reason}: ${message}`) };
}
