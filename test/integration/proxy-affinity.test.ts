import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { type Ip, parseIp } from '../../src/base/net/ip.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { isLearned, learnedCookieOf, type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { reg } from '../../src/dataplane/pipeline/fields.ts';
import { goto, load } from '../../src/dataplane/pipeline/flow.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { affinityClientsMax } from '../../src/dataplane/targets/bridge/encoding/learn-actions.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { affinityCheck } from '../../src/operations/diagnose/entries/affinity-check.ts';
import { readAffinityUse } from '../../src/operations/diagnose/entries/affinity-clients.ts';
import { compileService } from '../../src/services/compile/compile-service.ts';
import type { ServiceEndpoint, ServiceIntent } from '../../src/services/compile/service-intent.ts';
import { AffinityKeeper } from '../../src/services/controller/effects/affinity-keeper.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const [first, second] = [
  { ip: parseIp('10.10.0.1'), port: 8080 },
  { ip: parseIp('10.10.0.2'), port: 8080 },
];

const isOwn = (ip: Ip): boolean => ip.text.startsWith('10.10.');

function intent(clusterIp: string, affinitySeconds: number, ...cluster: readonly ServiceEndpoint[]): ServiceIntent {
  return {
    name: 'http/ipv4',
    family: 'ipv4',
    transport: 'tcp',
    port: 80,
    addresses: [{ kind: 'cluster', ip: parseIp(clusterIp), port: 80 }],
    internalPolicy: 'Cluster',
    externalPolicy: 'Cluster',
    affinitySeconds,
    translation: 'endpoint',
    sourceRanges: [],
    cluster,
    local: [],
    anyEndpoint: true,
    objections: [],
  };
}

/** @param was undefined if the port is new @param is undefined if it is deleted */
function portChanged(keeper: AffinityKeeper, owner: Owner, was: ServiceIntent | undefined, is: ServiceIntent | undefined): void {
  keeper.changed({ ports: [{ owner, was, is }] }, Promise.resolve());
}

describe('learned choices of endpoints', () => {
  let ovs: TestSwitch;
  let bridge: OpenFlowConnection;
  const stop = new AbortController();
  const [web, other] = [ownerOf('service', 'default/web:http/ipv4'), ownerOf('service', 'default/other:http/ipv4')];

  beforeAll(async () => {
    ovs = startSwitch('--enable-dummy');
    const port = ['--', 'add-port', 'br-int', 'p1', '--', 'set', 'Interface', 'p1', 'type=dummy', 'ofport_request=1'];
    ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...port);
    bridge = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void bridge.run(stop.signal);
    await bridge.untilUp(stop.signal);
  });
  afterAll(async () => {
    stop.abort();
    await ovs.stop();
  });

  /** The Service on the bridge, with one endpoint at a time, so that the endpoint of each client is known. */
  async function serve(owner: Owner, groupId: number, what: ServiceIntent): Promise<void> {
    const wanted = compileService(what, { owner, groupId: () => groupId });
    const classify = {
      table: 'classify',
      priority: 1,
      match: { payload: 'ipv4' },
      steps: [load(reg.serviceState('choose')), goto('balance')],
    } as const;
    const put = new Map([
      ...encodeBridgeEntries(owner, wanted),
      ...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: [classify] }),
    ]);
    await new BridgeTarget(bridge).apply({ put, remove: new Set() }, stop.signal);
    // A cached decision would learn by the former flows.
    ovs.exec('ovs-appctl', 'revalidator/purge');
  }

  function connect(from: string, to: string): void {
    const packet = `in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=${from},dst=${to},proto=6,tos=0,ttl=64,frag=no),tcp(src=40000,dst=80),tcp_flags(syn)`;
    ovs.exec('ovs-appctl', 'netdev-dummy/receive', 'p1', packet);
  }

  /** Remembered clients, in order. */
  function remembered(): string[] {
    const dump = ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${tables.affinity.id}`);
    return [...dump.matchAll(/nw_src=([0-9.]+)/g)].map(([, client = '']) => client).toSorted();
  }

  function learnedFlows(): string[] {
    return ovs
      .exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${tables.affinity.id}`)
      .split('\n')
      .filter((line) => line.includes('nw_src='));
  }

  const idleTimeouts = (): (string | undefined)[] => learnedFlows().map((line) => /idle_timeout=(\d+)/.exec(line)?.[1]);

  it('are removed with their endpoint, and no others; all with the Service; long ones when unused', async () => {
    const time = { nowMs: 0 };
    const keeper = new AffinityKeeper({ bridge, isOwn, log: silentLog, signal: stop.signal, nowMs: () => time.nowMs });
    const both = intent('10.96.0.10', 80_000, first, second);
    const apart = intent('10.96.0.11', 600, first);
    await serve(web, 7, intent('10.96.0.10', 80_000, first));
    await serve(other, 8, apart);
    for (const client of ['10.10.9.1', '10.10.9.2']) connect(client, '10.96.0.10');
    connect('10.10.9.1', '10.96.0.11');
    await serve(web, 7, intent('10.96.0.10', 80_000, second));
    for (const client of ['10.10.9.3', '10.10.9.4']) connect(client, '10.96.0.10');
    await expect.poll(remembered).toEqual(['10.10.9.1', '10.10.9.1', '10.10.9.2', '10.10.9.3', '10.10.9.4']);

    portChanged(keeper, web, both, intent('10.96.0.10', 80_000, second));
    await expect.poll(remembered).toEqual(['10.10.9.1', '10.10.9.3', '10.10.9.4']);
    expect(keeper.removed).toBe(2);

    await keeper.expire();
    time.nowMs = 79_999_000;
    await keeper.expire();
    expect(remembered()).toHaveLength(3);
    time.nowMs = 80_000_000;
    await keeper.expire();
    expect(remembered()).toEqual(['10.10.9.1']);

    portChanged(keeper, other, apart, undefined);
    await expect.poll(remembered).toEqual([]);
    await bridge.dumpFlows({}, (flow) => expect(isLearned(flow.cookie)).toBe(false), stop.signal);
  });

  it('are removed when a traffic policy no longer allows their endpoint, which need not be removed', async () => {
    const keeper = new AffinityKeeper({ bridge, isOwn, log: silentLog, signal: stop.signal });
    const owner = ownerOf('service', 'default/policy:http/ipv4');
    for (const [client, endpoint] of [
      ['10.10.9.1', first],
      ['10.10.9.2', second],
    ] as const) {
      await serve(owner, 9, intent('10.96.0.12', 600, endpoint));
      connect(client, '10.96.0.12');
    }
    await expect.poll(remembered).toEqual(['10.10.9.1', '10.10.9.2']);
    const both = { ...intent('10.96.0.12', 600, first, second), local: [first] };
    portChanged(keeper, owner, undefined, both);
    const local = { ...both, internalPolicy: 'Local' } as const;
    await serve(owner, 9, local);
    portChanged(keeper, owner, both, local);
    await expect.poll(remembered).toEqual(['10.10.9.1']);
    portChanged(keeper, owner, local, undefined);
    await expect.poll(remembered).toEqual([]);
  });

  it('of a Service with thousands of ports are listed together', async () => {
    let lists = 0;
    const dumpFlows: typeof bridge.dumpFlows = (...args) => {
      lists++;
      return bridge.dumpFlows(...args);
    };
    const counted = { dumpFlows, bundle: bridge.bundle.bind(bridge), untilUp: bridge.untilUp.bind(bridge) };
    const keeper = new AffinityKeeper({ bridge: counted, isOwn, log: silentLog, signal: stop.signal });
    const owner = ownerOf('service', 'default/large-7:http/ipv4');
    const is = intent('10.96.0.13', 600, first);
    await serve(owner, 9, is);
    connect('10.10.9.1', '10.96.0.13');
    await expect.poll(remembered).toEqual(['10.10.9.1']);
    const ports = Array.from({ length: 3_000 }, (_, index) => ownerOf('service', `default/large-${index}:http/ipv4`));
    keeper.changed({ ports: ports.map((each) => ({ owner: each, was: is, is: undefined })) }, Promise.resolve());
    await expect.poll(remembered).toEqual([]);
    expect(keeper.removed).toBe(1);
    expect(lists).toBeLessThanOrEqual(3);
  });

  describe('have the present timeout of their Service', () => {
    const owner = ownerOf('service', 'default/timeout:http/ipv4');
    const at = (seconds: number): ServiceIntent => intent('10.96.0.13', seconds, first);
    const longest = 65_535;

    /** Ends the keeper of a test: it looks at the choices several times after a change, and would renew those of the next test. */
    let done: AbortController;
    beforeEach(() => void (done = new AbortController()));
    afterEach(() => {
      done.abort();
      // A cached decision whose packets are not counted yet would learn again while it is purged.
      ovs.exec('ovs-appctl', 'revalidator/purge');
      ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', `table=${tables.affinity.id},cookie=${learnedCookieOf(owner)}/-1`);
    });

    async function learned(seconds: number): Promise<AffinityKeeper> {
      await serve(owner, 10, at(seconds));
      connect('10.10.9.1', '10.96.0.13');
      await expect.poll(remembered).toEqual(['10.10.9.1']);
      return new AffinityKeeper({ bridge, isOwn, log: silentLog, signal: done.signal });
    }

    it.each([
      ['shorter', 600, 60, '60'],
      ['longer', 60, 600, '600'],
      ['too long for the switch', 600, longest + 1, undefined],
      ['not too long any more', longest + 1, 600, '600'],
    ])('after it becomes %s', async (_, before, after, timeout) => {
      const keeper = await learned(before);
      portChanged(keeper, owner, at(before), at(after));
      await expect.poll(idleTimeouts).toEqual([timeout]);
      expect([remembered(), keeper.removed]).toEqual([['10.10.9.1'], 0]);
    });

    it('after it changed while no agent ran', async () => {
      const keeper = await learned(600);
      portChanged(keeper, owner, undefined, at(60));
      expect(await keeper.compare()).toBe('corrected');
      expect(idleTimeouts()).toEqual(['60']);
      expect(await keeper.compare()).toBe('kept');
    });

    it('and keep their endpoint, which the renewal does not choose again', async () => {
      const moved = ownerOf('service', 'default/moved-timeout:http/ipv4');
      const movedAt = (seconds: number, endpoint: ServiceEndpoint) => intent('10.96.0.14', seconds, endpoint);
      await serve(moved, 11, movedAt(600, first));
      connect('10.10.9.1', '10.96.0.14');
      await expect.poll(remembered).toEqual(['10.10.9.1']);
      const keeper = new AffinityKeeper({ bridge, isOwn, log: silentLog, signal: done.signal });
      portChanged(keeper, moved, movedAt(600, first), movedAt(60, second));
      await expect.poll(remembered).toEqual([]);
      expect(keeper.removed).toBe(1);
    });
  });

  describe('after a restart of the agent', () => {
    const owners = ['kept', 'moved', 'plain', 'deleted'].map((name) => ownerOf('service', `default/${name}:http/ipv4`));
    const [kept, moved, plain, deleted] = owners;
    const ipOf = (index: number): string => `10.96.1.${index}`;

    /** Every Service with `clients` clients that are bound to its first endpoint. */
    async function bind(clients: readonly number[]): Promise<void> {
      for (const [index, owner] of owners.entries()) {
        await serve(owner, 20 + index, intent(ipOf(index), 600, first));
        for (let client = 1; client <= (clients[index] ?? 0); client++) connect(`10.10.${20 + index}.${client}`, ipOf(index));
      }
      await expect.poll(() => remembered().length).toBe(clients.reduce((sum, each) => sum + each));
    }

    /** An agent that has just read the present state. */
    function restarted(): AffinityKeeper {
      if (kept === undefined || moved === undefined || plain === undefined || deleted === undefined) throw new Error('four owners');
      const keeper = new AffinityKeeper({ bridge, isOwn, log: silentLog, signal: stop.signal });
      const { affinitySeconds: _, ...withoutAffinity } = intent(ipOf(2), 600, first);
      portChanged(keeper, kept, undefined, intent(ipOf(0), 600, first, second));
      portChanged(keeper, moved, undefined, intent(ipOf(1), 600, second));
      portChanged(keeper, plain, undefined, withoutAffinity);
      return keeper;
    }

    it('are removed if the endpoint, the affinity or the Service was, and stay otherwise', async () => {
      await bind([9, 1, 1, 1]);
      const keeper = restarted();
      expect(await keeper.compare()).toBe('corrected');
      expect(remembered().every((client) => client.startsWith('10.10.20.'))).toBe(true);
      expect(remembered()).toHaveLength(9);
      expect(await keeper.compare()).toBe('kept');
    });

    it('are delayed until a second check if more than 30 % would be removed at once', async () => {
      await bind([9, 4, 1, 1]);
      const keeper = restarted();
      expect(await keeper.compare()).toBe('held');
      expect([remembered().length, keeper.held]).toEqual([15, 6]);
      expect(await keeper.compare()).toBe('corrected');
      expect([remembered().length, keeper.held]).toEqual([9, 0]);
    });

    it('are compared by themselves once everything is synced, and not before', async () => {
      await bind([9, 1, 1, 1]);
      const inStep = Promise.withResolvers<void>();
      void restarted().run(inStep.promise);
      expect(remembered()).toHaveLength(12);
      inStep.resolve();
      await expect.poll(() => remembered().length).toBe(9);
    });
  });

  it('are 10,000 of a port at most; a port without room is named, and its further clients are served', async () => {
    const owner = ownerOf('service', 'default/full:http/ipv4');
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', `table=${tables.affinity.id}`);
    const is = intent('10.96.0.14', 600, first);
    await serve(owner, 11, is);
    connect('10.10.9.1', '10.96.0.14');
    await expect.poll(remembered).toEqual(['10.10.9.1']);
    const [learned = ''] = learnedFlows();
    const flow = learned.replace(/ (duration|n_packets|n_bytes|idle_age|hard_age)=[^,]+,/g, '').trim();
    const clients = Array.from({ length: affinityClientsMax - 2 }, (_, at) => `10.11.${at >> 8}.${at & 255}`);
    const file = join(ovs.runDir, 'clients');
    writeFileSync(file, clients.map((client) => flow.replace('nw_src=10.10.9.1', `nw_src=${client}`)).join('\n'));
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flows', 'br-int', file);
    const check = affinityCheck(bridge, { served: () => [[owner, undefined]] });
    expect([(await readAffinityUse(bridge, stop.signal)).clients, (await check.run(stop.signal)).problems]).toEqual([9_999, []]);
    connect('10.10.9.2', '10.96.0.14');
    await expect.poll(() => remembered().length).toBe(affinityClientsMax);
    const packets = () => Number(/n_packets=(\d+)/.exec(ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=0'))?.[1]);
    const before = packets();
    connect('10.10.9.3', '10.96.0.14');
    await expect.poll(packets).toBe(before + 1);
    expect(remembered()).not.toContain('10.10.9.3');
    expect((await check.run(stop.signal)).problems).toMatchObject([{ kind: 'service.affinity', about: 'default/full:http/ipv4' }]);
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', `table=${tables.affinity.id},cookie=${learnedCookieOf(owner)}/-1`);
  });
});
