import { setImmediate as nextLoopTurn } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { filledService } from '../../../test/support/scene-service.ts';
import { servicesScenario } from '../../../test/support/services-scenario.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { packEndpoints } from '../../base/net/packed-endpoints.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';

function service(name: string, index: number): Service {
  return filledService({
    name,
    clusterIps: [`10.96.${index >> 8}.${index & 255}`],
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
  });
}

function slice(name: string, of: string, ...addresses: readonly string[]): EndpointSlice {
  const endpoints = packEndpoints(addresses.map((address) => ({ addresses: [address], ready: true, serving: true, terminating: false })));
  return { namespace: 'default', name, service: of, family: 'ipv4', ports: [{ name: 'http', protocol: 'TCP', port: 8080 }], endpoints };
}

describe('Services', () => {
  it('processes changes, however many Services there are', async () => {
    const t = servicesScenario();
    for (let index = 1; index <= 10_000; index++) {
      t.services.put(`default/s${index}`, '1', service(`s${index}`, index));
      t.slices.put(`default/s${index}-x`, '1', slice(`s${index}-x`, `s${index}`, '10.10.0.5'));
    }
    await t.follow();
    expect(t.served.count).toBe(10_000);
    await t.flush();
    t.wishes.length = 0;
    t.slices.put('default/s7-x', '2', slice('s7-x', 's7', '10.10.0.5', '10.10.0.6'));
    await t.flush();
    expect(t.wishes.toSorted()).toEqual(['endpoint/tcp/10.10.0.6/8080', 'service/default/s7:http/ipv4']);
  });

  it('accepts a renamed port, and an address that another Service had', async () => {
    const t = servicesScenario();
    t.slices.markSynced();
    const a = service('a', 1);
    t.services.put('default/a', '1', a);
    await t.follow();
    t.services.put('default/a', '2', { ...a, ports: a.ports.map((port) => ({ ...port, name: 'web' })) });
    await t.flush();
    // A list reports present objects before removed ones.
    t.services.replace(new Map([['default/b', { version: '3', value: service('b', 1) }]]));
    await t.flush();
    expect([...t.datapath.bridge.owners()]).toEqual(['service/default/b:http/ipv4']);
  });

  it('does not process a Service before its slices are listed, and then once', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    t.services.put('default/b', '1', service('b', 2));
    t.services.put('default/c', '1', service('c', 3));
    t.slices.put('default/c-x', '1', slice('c-x', 'c', '10.10.0.7'));
    t.services.markSynced();
    t.slices.flush();
    await t.follow();
    expect(t.wishes).toEqual(['endpoint/tcp/10.10.0.7/8080', 'service/default/c:http/ipv4']);
    expect(t.served.isInStep).toBe(false);
    t.wishes.length = 0;
    t.slices.put('default/a-x', '1', slice('a-x', 'a', '10.10.0.5'));
    t.slices.markSynced();
    await t.served.settled();
    // The one without an endpoint refuses its clients, now that it is known to have none.
    expect(t.wishes).toEqual(['endpoint/tcp/10.10.0.5/8080', 'service/default/a:http/ipv4', 'service/default/b:http/ipv4']);
    expect(t.changes.map(({ occasion }) => occasion)).toEqual(['start', 'start', 'start']);
    expect(t.served.isInStep).toBe(true);
  });

  it('serves every endpoint of a Service, however many they are', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    const addresses = Array.from({ length: 5_000 }, (_, index) => `10.${index >> 8}.${index & 255}.7`);
    t.slices.put('default/a-x', '1', slice('a-x', 'a', ...addresses));
    await t.follow();
    expect(t.served.ownersOf('default/a').endpoints.size).toBe(5_000);
    expect(t.served.objections.size).toBe(0);
  });

  it('distinguishes events from objects present when the agent started', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    t.slices.put('default/a-x', '1', slice('a-x', 'a', '10.10.0.5'));
    await t.follow();
    t.services.put('default/b', '1', service('b', 2));
    await t.flush();
    t.services.markSynced();
    t.slices.markSynced();
    await vi.waitFor(() => expect(t.served.isInStep).toBe(true));
    t.slices.put('default/a-x', '2', slice('a-x', 'a', '10.10.0.6'));
    t.services.put('default/c', '2', service('c', 3));
    await t.flush();
    expect(
      t.changes.map(({ key, occasion, ports }) => [
        key,
        occasion,
        ports.map(({ was, is }) => [was, is].map((each) => each?.cluster.length)),
      ]),
    ).toEqual([
      ['default/a', 'start', [[undefined, 1]]],
      ['default/b', 'start', [[undefined, 0]]],
      ['default/a', 'news', [[1, 1]]],
      ['default/c', 'news', [[undefined, 0]]],
    ]);
  });

  it('processes a burst at once', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    await t.follow();
    t.wishes.length = 0;
    for (let index = 1; index <= 20; index++) {
      t.slices.put('default/a-x', String(index), slice('a-x', 'a', `10.10.0.${index}`));
      t.slices.flush();
    }
    await t.served.settled();
    expect(t.wishes).toEqual(['endpoint/tcp/10.10.0.20/8080', 'service/default/a:http/ipv4']);
  });

  it('handles a change soon although many Services are compared again', async () => {
    const t = servicesScenario({ turns: new LoopTurns(0) });
    for (let index = 1; index <= 300; index++) t.services.put(`default/s${index}`, '1', service(`s${index}`, index));
    t.services.markSynced();
    t.slices.markSynced();
    await t.follow();
    t.wishes.length = 0;
    t.served.checkAgain();
    // Asked after each turn: a timer could come after all were compared.
    while (t.wishes.length <= 3) await nextLoopTurn();
    t.services.put('default/z', '2', service('z', 400));
    t.services.put('default/s300', '2', {
      ...service('s300', 300),
      ports: service('s300', 300).ports.map((port) => ({ ...port, port: 81 })),
    });
    t.services.flush();
    await t.served.settled();
    expect(t.wishes.indexOf('service/default/z:http/ipv4' as never)).toBeLessThan(100);
    expect(t.wishes.indexOf('service/default/s300:http/ipv4' as never)).toBeLessThan(100);
    // Each once: the one that has changed is not compared again in its place.
    expect(t.wishes.length).toBe(301);
  });

  describe('of two Services with one address', () => {
    const balanced = (name: string, index: number, ip: string, createdAt = '2026-01-02T00:00:00Z'): Service => ({
      ...service(name, index),
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip, ipMode: 'VIP' }],
      createdAt,
    });
    const addressesOf = (t: ReturnType<typeof servicesScenario>, key: string): readonly string[] =>
      [...t.served.portsOf(key).values()].flatMap(({ intent }) => intent.addresses.map(({ ip }) => ip.text));

    it('serves the one with the allocated cluster address, reports the other, and serves that once it is free', async () => {
      const t = servicesScenario();
      t.slices.markSynced();
      t.services.put('default/a', '1', balanced('a', 1, '10.96.0.2', '2026-01-01T00:00:00Z'));
      await t.follow();
      expect(addressesOf(t, 'default/a')).toEqual(['10.96.0.1', '10.96.0.2']);
      t.services.put('default/z', '2', { ...service('z', 2), createdAt: '2026-01-02T00:00:00Z' });
      await t.flush();
      expect(addressesOf(t, 'default/a')).toEqual(['10.96.0.1']);
      expect(addressesOf(t, 'default/z')).toEqual(['10.96.0.2']);
      expect(t.served.objections.of('default/a')).toEqual(['10.96.0.2 belongs to Service default/z']);
      t.services.remove('default/z', '3');
      await t.flush();
      expect(addressesOf(t, 'default/a')).toEqual(['10.96.0.1', '10.96.0.2']);
      expect(t.served.objections.size).toBe(0);
    });

    it('reserves the cluster address of a Service that another proxy serves, and of one with other ports', async () => {
      const t = servicesScenario();
      t.slices.markSynced();
      const other = service('other', 2);
      t.services.put('default/other', '1', { ...other, proxyName: 'mesh', ports: other.ports.map((port) => ({ ...port, port: 443 })) });
      t.services.put('default/a', '1', balanced('a', 1, '10.96.0.2'));
      await t.follow();
      expect(addressesOf(t, 'default/a')).toEqual(['10.96.0.1']);
    });

    it('serves the older of two that both request it, whichever was created first; different ports of it are no conflict', async () => {
      const t = servicesScenario();
      t.slices.markSynced();
      t.services.put('default/a', '1', balanced('a', 1, '198.51.100.1'));
      await t.follow();
      t.services.put('default/b', '1', balanced('b', 2, '198.51.100.1', '2026-01-01T00:00:00Z'));
      const third = balanced('c', 3, '198.51.100.1');
      t.services.put('default/c', '1', { ...third, ports: third.ports.map((port) => ({ ...port, port: 443 })) });
      await t.flush();
      expect(['a', 'b', 'c'].map((name) => addressesOf(t, `default/${name}`).includes('198.51.100.1'))).toEqual([false, true, true]);
    });

    it('leaves a node’s address its node ports, and the API server its address and port', async () => {
      const t = servicesScenario();
      t.slices.markSynced();
      const ported = service('ported', 1);
      t.services.put('default/ported', '1', {
        ...ported,
        type: 'NodePort',
        ports: ported.ports.map((port) => ({ ...port, nodePort: 30_080 })),
      });
      const thief = balanced('a', 2, '192.0.2.1', '2020-01-01T00:00:00Z');
      t.services.put('default/a', '1', { ...thief, ports: thief.ports.map((port) => ({ ...port, port: 30_080 })) });
      t.services.put('default/kubernetes', '1', service('kubernetes', 3));
      t.slices.put('default/kubernetes', '1', {
        ...slice('kubernetes', 'kubernetes', '203.0.113.9'),
        ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
      });
      const second = balanced('b', 4, '203.0.113.9', '2020-01-01T00:00:00Z');
      t.services.put('default/b', '1', {
        ...second,
        ports: [...second.ports, ...second.ports.map((port) => ({ ...port, name: 'x', port: 6443 }))],
      });
      await t.follow();
      expect(addressesOf(t, 'default/a')).toEqual(['10.96.0.2']);
      expect(t.served.objections.of('default/a')).toEqual(['192.0.2.1, port 30080, belongs to Service default/ported']);
      expect(addressesOf(t, 'default/b')).toEqual(['10.96.0.4', '203.0.113.9', '10.96.0.4']);
      expect(t.served.objections.of('default/b')).toEqual(['203.0.113.9 belongs to Service default/kubernetes']);
      t.slices.remove('default/kubernetes', '2');
      await t.flush();
      expect(t.served.objections.of('default/b')).toEqual([]);
    });
  });

  it('serves an external address that stays with its node, but no cluster address', async () => {
    const t = servicesScenario();
    t.slices.markSynced();
    const balancer: Service = { ...service('a', 1), type: 'LoadBalancer', loadBalancerIngress: [{ ip: '192.0.2.1', ipMode: 'VIP' }] };
    t.services.put('default/a', '1', balancer);
    t.services.put('default/b', '1', { ...service('b', 1), clusterIps: ['192.0.2.1'] });
    await t.follow();
    const [port] = t.served.portsOf('default/a').values();
    expect(port?.intent.addresses.map(({ kind }) => kind)).toEqual(['cluster', 'loadBalancer']);
    expect(t.served.objections.of('default/b')).toEqual(['192.0.2.1 belongs to pods of node n2']);
  });

  it('sends nothing to addresses that no endpoint can have, and reports them', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    t.slices.put(
      'default/a-x',
      '1',
      slice('a-x', 'a', '127.0.0.1', '169.254.169.254', '169.254.0.253', '224.0.0.1', '0.0.0.0', 'fc01::aabb:ccdd:eeff', '10.10.0.5'),
    );
    await t.follow();
    expect([...t.served.ownersOf('default/a').endpoints]).toEqual(['endpoint/tcp/10.10.0.5/8080']);
    expect(t.served.objections.of('default/a')).toEqual(['port 80: no packets are sent to 6 endpoints such as 127.0.0.1']);
    t.slices.put('default/a-x', '2', slice('a-x', 'a', '10.10.0.5'));
    await t.flush();
    expect(t.served.objections.size).toBe(0);
  });

  it('does not serve an address of another owner, and stops if it was served', async () => {
    const t = servicesScenario();
    const a = service('a', 1);
    t.services.put('default/a', '1', a);
    t.slices.put('default/a-x', '1', slice('a-x', 'a', '10.10.0.5'));
    await t.follow();
    expect(t.datapath.bridge.size).toBeGreaterThan(0);
    t.services.put('default/a', '2', { ...a, clusterIps: ['10.97.7.7'] });
    await t.flush();
    expect(t.datapath.bridge.size).toBe(0);
    expect(t.served.objections.of('default/a')).toEqual(['10.97.7.7 belongs to pods of node n2']);
  });

  it("omits entries that exceed OpenFlow's limits, and serves all others", async () => {
    const t = servicesScenario();
    const want = t.datapath.want;
    t.datapath.want = (owner, wanted) => {
      if (owner === 'service/default/a:http/ipv4') throw new Error('a group of 70000 bytes');
      return want(owner, wanted);
    };
    for (const [index, name] of ['a', 'b'].entries()) {
      t.services.put(`default/${name}`, '1', service(name, index + 1));
      t.slices.put(`default/${name}-x`, '1', slice(`${name}-x`, name, `10.10.0.${index}`));
    }
    await t.follow();
    expect([...t.datapath.bridge.owners()]).toEqual(['endpoint/tcp/10.10.0.1/8080', 'service/default/b:http/ipv4']);
    expect(t.served.objections.of('default/a').join()).toContain('70000 bytes');
  });

  it('keeps an endpoint’s translation until no Service uses it', async () => {
    const t = servicesScenario();
    for (const [index, name] of ['a', 'b'].entries()) {
      t.services.put(`default/${name}`, '1', service(name, index + 1));
      t.slices.put(`default/${name}-x`, '1', slice(`${name}-x`, name, '10.10.0.5'));
    }
    await t.follow();
    const owners = (): string[] => [...t.datapath.bridge.owners()].filter((owner) => owner.startsWith('endpoint/'));
    expect(owners()).toEqual(['endpoint/tcp/10.10.0.5/8080']);
    t.services.remove('default/a', '2');
    await t.flush();
    expect(owners()).toEqual(['endpoint/tcp/10.10.0.5/8080']);
    t.slices.remove('default/b-x', '2');
    await t.flush();
    expect(owners()).toEqual([]);
    expect([...t.datapath.bridge.owners()]).toEqual(['service/default/b:http/ipv4']);
  });

  it('follows a slice that moves to another Service', async () => {
    const t = servicesScenario();
    t.services.put('default/a', '1', service('a', 1));
    t.services.put('default/b', '1', service('b', 2));
    t.slices.put('default/x', '1', slice('x', 'a', '10.10.0.5', '10.10.0.6'));
    await t.follow();
    const groups = (owner: string): number => t.datapath.bridge.keysOf(owner).filter((key) => key.startsWith('G')).length;
    expect([groups('service/default/a:http/ipv4'), groups('service/default/b:http/ipv4')]).toEqual([1, 0]);
    t.slices.put('default/x', '2', slice('x', 'b', '10.10.0.5', '10.10.0.6'));
    await t.flush();
    expect([groups('service/default/a:http/ipv4'), groups('service/default/b:http/ipv4')]).toEqual([0, 1]);
  });

  it('desires the same groups in any order of Services', async () => {
    const [first, second] = [servicesScenario(), servicesScenario()];
    const names = Array.from({ length: 50 }, (_, index) => `s${index}`);
    for (const [t, order] of [
      [first, names],
      [second, names.toReversed()],
    ] as const) {
      for (const name of order) {
        t.services.put(`default/${name}`, '1', service(name, Number(name.slice(1)) + 1));
        t.slices.put(`default/${name}-x`, '1', slice(`${name}-x`, name, '10.10.0.5'));
      }
      await t.follow();
    }
    const entries = (t: ReturnType<typeof servicesScenario>): string[] =>
      [...t.datapath.bridge.keys()].map((key) => `${key}${t.datapath.bridge.wanted(key)}`).toSorted();
    expect(entries(second)).toEqual(entries(first));
  });
});
