import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { denyAll, EnforcementScene, standingOf, web } from '../../../test/support/enforcement-scene.ts';
import { parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import type { LocalSubject } from './local-subjects.ts';
import type { PolicyController } from './policy-controller.ts';

const never = new AbortController().signal;
const successor: LocalSubject = {
  owner: ownerOf('subject', 'shop', 'web', 'eth0@next'),
  ofPort: 9,
  addresses: [parseIp('10.10.0.9')],
  pod: { namespace: 'shop', name: 'web', uid: 'next' },
};
let scene: EnforcementScene;
/** UID of the pod `shop/web` in the API server. */
let uid: string;
let enforcement: PolicyController;

beforeEach(async () => {
  scene = new EnforcementScene();
  uid = 'u';
  scene.put(denyAll);
  const factsOf = (pod: PodIdentity) => (pod.uid === uid ? { labels: { app: 'web' }, ports: {} } : undefined);
  enforcement = await scene.enforce({ factsOf });
  await enforcement.attach(web, never);
});
afterEach(() => scene.end());

const standings = (): readonly (string | undefined)[] => [web, successor].map(({ owner }) => enforcement.standings().get(owner)?.is);

describe('a pod that was deleted by force and created again', () => {
  it('has policies while the sandbox of its predecessor lives, which stays blocked and has none of its addresses', async () => {
    uid = 'next';
    await enforcement.attach(successor, never);
    await enforcement.settled();
    expect(standings()).toEqual(['closed', 'policed']);
    expect(standingOf(enforcement)).toBe('policed');
    expect(['10.10.0.9', '10.10.0.7'].map((ip) => enforcement.holderOf(parseIp(ip)))).toEqual(['shop/web', undefined]);
    enforcement.detach(web.owner);
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('policed');
  });

  it('has its own policies in whichever order an agent that restarts finds the two', async () => {
    uid = 'next';
    enforcement.adopt(successor);
    enforcement.detach(web.owner);
    enforcement.adopt(web);
    await enforcement.settled();
    expect(standings()[1]).toBe('policed');
    expect(standingOf(enforcement)).toBe('policed');
  });

  it('has its address on this node while it runs on another node and the sandbox of its predecessor is still here', async () => {
    uid = 'next';
    scene.listWeb({ namespace: 'shop', name: 'web', nodeName: 'n2', podIps: ['10.10.4.9'], labels: {}, ports: {} });
    enforcement.podsChanged(['shop/web']);
    await enforcement.settled();
    expect(['10.10.4.9', '10.10.0.7'].map((ip) => enforcement.holderOf(parseIp(ip)))).toEqual(['shop/web', undefined]);
    expect(standings()[0]).toBe('closed');
  });
});
