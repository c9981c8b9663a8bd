import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  denyAll,
  EnforcementScene,
  policy,
  type RecordingBridge,
  second,
  standingOf,
  web,
} from '../../../test/support/enforcement-scene.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { parseIp } from '../../base/net/ip.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PolicyController } from './policy-controller.ts';

const never = new AbortController().signal;
let scene: EnforcementScene;
let bridge: RecordingBridge;

beforeEach(() => {
  scene = new EnforcementScene();
  ({ bridge } = scene);
});
afterEach(() => scene.end());

describe('a pod', () => {
  it('has entry flows to rows only once OVS has acknowledged them, and old rows are removed only after the entry flows moved', async () => {
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    expect(standingOf(enforcement)).toBe('free');
    bridge.calls.length = 0;

    bridge.isQuick = false;
    const revision = enforcement.matrixRevision;
    scene.put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    expect(bridge.take('class', 'subject')).toEqual(['want class']);
    expect(standingOf(enforcement)).toBe('free');
    bridge.acknowledge();
    await settled;
    expect(enforcement.matrixRevision).toBeGreaterThan(revision);
    expect(bridge.take('class', 'subject')).toEqual([`want ${web.owner}`]);
    expect(enforcement.pods().get('shop/web')).toEqual({ is: 'policed', ingress: ['shop/deny-all'], egress: [] });

    bridge.isQuick = true;
    bridge.acknowledge();
    scene.remove(denyAll);
    await enforcement.settled();
    expect(bridge.take('class', 'subject')).toEqual([`want ${web.owner}`, 'forget class']);
  });

  describe('whose policy allows other ports', () => {
    const letting = (port: number): NetworkPolicy =>
      policy('ports', { podSelector: {}, ingress: [{ ports: [80, 81, 82, port].map((each) => ({ protocol: 'TCP', port: each })) }] });
    const begin = async (): Promise<PolicyController> => {
      scene.put(letting(90));
      const enforcement = await scene.enforce();
      for (const each of [web, second]) await enforcement.attach(each, never);
      await enforcement.settled();
      return enforcement;
    };
    const rest = async (enforcement: PolicyController): Promise<void> => {
      enforcement.removalsAllowed();
      // Numbers are checked again.
      await expect.poll(() => bridge.isLookedAt).toBe(true);
      bridge.calls.length = 0;
    };
    const change = async (enforcement: PolicyController, port: number): Promise<readonly string[]> => {
      scene.put(letting(port));
      await enforcement.settled();
      return bridge.calls.splice(0).map((line) => line.replace(/(class|decision)\/[\w-]{20}/, '$1'));
    };

    it('keeps its entry flows, and the differing rows are edited in one bundle', async () => {
      const enforcement = await begin();
      await rest(enforcement);
      const calls = await change(enforcement, 91);
      expect(calls.slice(0, calls.indexOf('apart') + 1)).toEqual([
        'together',
        'want policy/ingress/decision',
        'want policy/ingress/ports/1/TCP/91-91/allow shop/ports spec.ingress[0]',
        'want policy/ingress/class',
        'forget policy/ingress/decision',
        'forget policy/ingress/class',
        'forget policy/ingress/ports/1/TCP/90-90/allow shop/ports spec.ingress[0]',
        'apart',
      ]);
      expect(calls.some((line) => line.startsWith('forget subject'))).toBe(false);
    });

    it('gets entry flows to other rows while the bridge may have unused rows, or lags', async () => {
      const enforcement = await begin();
      expect(await change(enforcement, 91)).not.toContain('together');
      await rest(enforcement);
      bridge.lose(web.owner);
      expect(await change(enforcement, 92)).not.toContain('together');
      expect(await change(enforcement, 93)).toContain('together');
    });

    it('and one that is new waits until the bridge has them', async () => {
      const enforcement = await begin();
      await rest(enforcement);
      const third = { ...web, owner: ownerOf('subject', 'shop', 'three', 'eth0@c'), pod: { namespace: 'shop', name: 'three', uid: 'w' } };
      scene.facts.set('three', { labels: {}, ports: {} });
      bridge.isQuick = false;
      scene.put(letting(91));
      await expect.poll(() => bridge.calls).toContain('apart');
      void enforcement.attach(third, never);
      await expect.poll(() => bridge.isAwaited).toBe(true);
      expect(bridge.wanted.has(third.owner)).toBe(false);
      bridge.acknowledgeRows();
      await expect.poll(() => bridge.wanted.has(third.owner)).toBe(true);
      bridge.acknowledge();
    });
  });

  it('that starts waits for the rows of a new class, and for none of a class in use', async () => {
    scene.put(denyAll);
    const enforcement = await scene.enforce();
    bridge.isQuick = false;
    const attached = enforcement.attach(web, never);
    await expect.poll(() => bridge.isAwaited).toBe(true);
    expect(bridge.take('class', 'subject')).toEqual(['want class']);
    bridge.acknowledge();
    await expect.poll(() => bridge.take('subject')).toEqual([`want ${web.owner}`]);
    bridge.acknowledge();
    await attached;
    void enforcement.attach(second, never);
    expect(bridge.take('class')).toEqual([]);
    await expect.poll(() => bridge.wanted.has(second.owner)).toBe(true);
    bridge.acknowledge();
  });

  it('gets entry flows to its rows while the bridge lags with entries of others, or refuses them', async () => {
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    bridge.isQuick = false;
    bridge.want(ownerOf('service', 'shop', 'web', '80'), nothing);
    scene.put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    bridge.acknowledgeRows();
    await settled;
    expect([standingOf(enforcement), bridge.realizedRevision < bridge.bridge.revision]).toEqual(['policed', true]);
  });

  it('that another policy isolates while it waits gets entry flows of the new state', async () => {
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    bridge.isQuick = false;
    scene.put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    bridge.calls.length = 0;
    scene.remove(denyAll);
    bridge.isQuick = true;
    bridge.acknowledge();
    await settled;
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('free');
    expect([...bridge.wanted.keys()]).toEqual([web.owner]);
  });

  it('that starts during a large update does not wait for it, if its class is in use, and no reader sees half of it', async () => {
    scene.put(
      policy('some', { podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: 'a' } } }] }] }),
    );
    const pods = new ReplicaStore<PolicyPod>();
    const enforcement = await scene.enforce({
      sources: {
        policies: scene.policies,
        clusterPolicies: new ReplicaStore(),
        namespaces: new ReplicaStore(),
        nodes: new ReplicaStore(),
        pods,
      },
      turns: new LoopTurns(0),
    });
    await enforcement.attach(web, never);
    await enforcement.settled();
    const many = 2_000;
    for (let at = 0; at < many; at++) {
      const podIps = [`10.20.${at >> 8}.${at & 255}`];
      pods.put(`many/${at}`, '1', { namespace: 'many', name: `${at}`, nodeName: 'n2', podIps, labels: { app: 'a' }, ports: {} });
    }
    pods.flush();
    bridge.calls.length = 0;
    let isSettled = false;
    const settled = enforcement.settled().then(() => {
      isSettled = true;
    });
    while (bridge.take('address').length === 0) await nextTurn();
    expect(enforcement.matrix.ingress.identities.size).toBe(0);
    await enforcement.attach(second, never);
    expect([isSettled, standingOf(enforcement, 'shop/two')]).toEqual([false, 'policed']);
    expect(enforcement.matrix.ingress.identities.size).toBe(0);
    await settled;
    expect(enforcement.matrix.ingress.identities.size).toBe(many);
    expect(enforcement.matrix.subjects.get('shop/two')?.ingress).toBe(enforcement.matrix.subjects.get('shop/web')?.ingress);
  });

  it('that is deleted has its flows removed immediately, and then the rows of its class', async () => {
    scene.put(denyAll);
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    bridge.calls.length = 0;
    enforcement.detach(web.owner);
    expect(bridge.calls).toEqual([`forget ${web.owner}`]);
    await enforcement.settled();
    expect([...bridge.wanted.keys()]).toEqual([]);
    expect(enforcement.pods().size).toBe(0);
  });
});

describe('a pod that has moved from another node under its name', () => {
  const elsewhere: PolicyPod = { namespace: 'shop', name: 'web', nodeName: 'n2', podIps: ['10.10.2.7'], labels: { app: 'web' }, ports: {} };

  it("has its local properties, whatever the cluster's list still has, and in any order", async () => {
    scene.listWeb(elsewhere);
    scene.put(denyAll);
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    expect(standingOf(enforcement)).toBe('policed');
    for (const said of [undefined, elsewhere, undefined, { ...elsewhere, nodeName: 'n1', podIps: [] }]) {
      scene.listWeb(said);
      await enforcement.settled();
      expect(standingOf(enforcement)).toBe('policed');
      expect(enforcement.holderOf(parseIp('10.10.0.7'))).toBe('shop/web');
    }
  });

  it("has the list's properties again, once it is deleted here", async () => {
    scene.listWeb(elsewhere);
    scene.put(denyAll);
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    await enforcement.settled();
    expect(enforcement.holderOf(parseIp('10.10.2.7'))).toBeUndefined();
    enforcement.detach(web.owner);
    await enforcement.settled();
    expect(enforcement.holderOf(parseIp('10.10.2.7'))).toBe('shop/web');
  });
});

it('does not rebuild flows of unchanged pods when others start', async () => {
  scene.facts.clear();
  const enforcement = await scene.enforce();
  await enforcement.attach(web, never);
  await enforcement.settled();
  bridge.calls.length = 0;
  await enforcement.attach(second, never);
  await enforcement.settled();
  expect(bridge.calls).toEqual([`want ${second.owner}`]);
  scene.put(denyAll);
  await enforcement.settled();
  expect(standingOf(enforcement)).toBe('closed');
  expect(bridge.calls).toContain(`want ${web.owner}`);
});
