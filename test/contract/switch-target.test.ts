import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { Reconciler } from '../../src/dataplane/reconcile/reconciler.ts';
import { openSwitchDatabase, type SwitchDatabase } from '../../src/dataplane/targets/switch/switch-database.ts';
import { portKey, type SwitchEntry, type SwitchKey, sameSwitchEntry } from '../../src/dataplane/targets/switch/switch-entry.ts';
import { SwitchTarget } from '../../src/dataplane/targets/switch/switch-target.ts';
import { TestOvsdbServer } from '../integration/ovsdb-server.ts';
import { startSwitch } from '../support/open-vswitch.ts';
import { type Specimen, targetContract } from './target.ts';

const lockName = 'seine_test';
const bridge: SwitchEntry = {
  kind: 'bridge',
  bridge: { name: 'br-int', datapathType: 'netdev', tableNames: new Map([[0, 'classify']]) },
};

function port(name: string, ofPort: number): ReadonlyMap<SwitchKey, SwitchEntry> {
  return new Map([[portKey(name), { kind: 'port', port: { name, type: '', ofPort, options: {}, externalIds: { of: name } } }]]);
}

async function openSwitch(): Promise<Specimen<SwitchKey, SwitchEntry>> {
  const stop = new AbortController();
  const ovs = startSwitch();
  const vsctl = (...words: readonly string[]): string => ovs.exec('ovs-vsctl', ...words);
  vsctl('add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev');
  vsctl('add-port', 'br-int', 'foreign1', '--', 'set', 'interface', 'foreign1', 'type=internal');
  const database = openSwitchDatabase(`${ovs.runDir}/db.sock`, {});
  const lock = database.lock(lockName);
  const running = database.run(stop.signal);
  await lock.whenHeld(stop.signal);
  vsctl('add-br', 'br-other', '--', 'set', 'bridge', 'br-other', 'datapath_type=netdev');
  vsctl('add-port', 'br-other', 'foreign0', '--', 'set', 'interface', 'foreign0', 'type=internal');
  const tunnel = {
    name: 'tun0',
    type: 'geneve',
    ofPort: 32768,
    options: { remote_ip: 'flow', key: 'flow', local_ip: 'flow' },
    externalIds: {},
  };
  const gateway = { name: 'gw0', type: 'internal', ofPort: 32769, options: {}, externalIds: {}, mac: '0e:00:00:00:01:01', mtu: 1400 };
  const entry = (one: typeof tunnel | typeof gateway): [SwitchKey, SwitchEntry] => [portKey(one.name), { kind: 'port', port: one }];
  return {
    target: new SwitchTarget(database, 'br-int', lockName),
    equal: sameSwitchEntry,
    base: new Map([['bridge', bridge]]),
    entries: new Map([entry(tunnel), entry(gateway), ...port('p1', 32784), ...port('p2', 32785)]),
    changes: new Map([
      entry({ ...tunnel, options: { ...tunnel.options, dst_port: '6082' } }),
      entry({ ...gateway, mac: '0e:00:00:00:01:02', mtu: 1450 }),
      ...port('p1', 32786),
    ]),
    impossible: port('bad', 70_000),
    foreign: () =>
      vsctl('--columns=name,external_ids,ofport', 'list', 'Interface', 'foreign0', 'foreign1') +
      vsctl('list-ports', 'br-other') +
      vsctl('iface-to-br', 'foreign1'),
    disturb: async () => {
      vsctl('set', 'interface', 'gw0', 'mtu_request=9000');
      vsctl('del-port', 'p1');
      await expect.poll(() => database.tables.Port.find('name', 'p1')).toBeUndefined();
    },
    wipe: async () => {
      vsctl('del-br', 'br-int');
      await expect.poll(() => database.tables.Bridge.find('name', 'br-int')).toBeUndefined();
    },
    die: () => ovs.killOvsdb(),
    revive: async () => ovs.startOvsdb(),
    close: async () => {
      stop.abort();
      await running;
      await ovs.stop();
    },
  };
}

targetContract('SwitchTarget', openSwitch, { refusal: 'all' });

/** The part of the agent that keeps rows of OVSDB in the desired state. */
class Keeper {
  readonly stop = new AbortController();
  readonly database: SwitchDatabase;
  readonly desired = new DesiredState<SwitchKey, SwitchEntry>({ equal: sameSwitchEntry });
  readonly refused: string[] = [];
  readonly failures: SeineError[] = [];
  readonly reconciler: Reconciler<SwitchKey, SwitchEntry>;
  readonly running: Promise<unknown>;

  constructor(socketPath: string) {
    this.database = openSwitchDatabase(socketPath, { synced: () => this.reconciler.invalidate() });
    this.reconciler = new Reconciler({
      name: 'switch',
      desired: this.desired,
      target: new SwitchTarget(this.database, 'br-int', lockName),
      equal: sameSwitchEntry,
      backoffMs: () => 20,
      batchSize: 64,
      now: () => performance.now(),
      events: {
        round: () => {},
        failure: (error) => this.failures.push(error),
        refused: (owner, error) => this.refused.push(`${owner}: ${error.message}`),
        drift: () => {},
        repaired: () => {},
      },
    });
    this.database.lock(lockName);
    this.running = Promise.all([this.database.run(this.stop.signal), this.reconciler.run(this.stop.signal)]);
  }

  want(owner: string, wanted: ReadonlyMap<SwitchKey, SwitchEntry>): number {
    const revision = this.desired.set(owner, wanted);
    this.reconciler.poke();
    return revision;
  }

  async realized(owner: string, revision: number): Promise<void> {
    await this.reconciler.realizedFor(owner, revision, AbortSignal.timeout(10_000));
  }

  async close(): Promise<void> {
    this.stop.abort();
    await this.running;
  }
}

describe('OVSDB', () => {
  let server: TestOvsdbServer;
  let keeper: Keeper;

  beforeEach(async () => {
    server = new TestOvsdbServer();
    await server.start();
    server.vsctl('init');
    keeper = new Keeper(server.socketPath);
    keeper.reconciler.allowRemovals();
    await keeper.realized('node', keeper.want('node', new Map([['bridge', bridge]])));
  });
  afterEach(async () => {
    await keeper.close();
    await server.remove();
  });

  it('accepts every port, however often its server dies meanwhile', async () => {
    for (let round = 1; round <= 12; round++) {
      const dies = (async () => {
        await sleep(Math.random() * 4);
        await server.kill();
        await server.start();
      })();
      const name = `p${round}`;
      const revision = keeper.want(name, port(name, round));
      await dies;
      await keeper.realized(name, revision);
      expect(keeper.database.tables.Port.find('name', name)).toBeDefined();
    }
    expect(keeper.refused).toEqual([]);
    expect(server.vsctl('list-ports', 'br-int').split('\n').length).toBe(12 + 1);
  });

  it('keeps external ids of others, and sees no difference in them', async () => {
    server.vsctl('br-set-external-id', 'br-int', 'noted-by', 'another');
    await expect.poll(() => keeper.database.tables.Bridge.find('name', 'br-int')?.external_ids.get('noted-by')).toBe('another');
    await keeper.reconciler.confirmed(AbortSignal.timeout(10_000));
    const held = await new SwitchTarget(keeper.database, 'br-int', lockName).observe(AbortSignal.timeout(10_000));
    expect(held.get('bridge')).toEqual(bridge);
    expect(server.vsctl('br-get-external-id', 'br-int', 'noted-by')).toBe('another\n');
  });

  it.each([
    ['Bridge', 'stp_enable=true'],
    ['Bridge', 'rstp_enable=true'],
    ['Interface', 'ingress_policing_rate=1'],
  ])('restores values that another program changes in a %s: %s', async (table, value) => {
    await keeper.realized('a', keeper.want('a', port('a', 1)));
    const [name, column = ''] = [table === 'Bridge' ? 'br-int' : 'a', value.split('=')[0]];
    const before = server.vsctl('get', table, name, column);
    server.vsctl('set', table, name, value);
    const looked = (): string => {
      keeper.reconciler.recheck();
      return server.vsctl('get', table, name, column);
    };
    await expect.poll(looked).toBe(before);
  });

  it('is not written to while another agent holds the lock, and afterwards is', async () => {
    const thief = new AbortController();
    const other = openSwitchDatabase(server.socketPath, {});
    const running = other.run(thief.signal);
    await other.call('steal', [lockName], thief.signal);
    const revision = keeper.want('a', port('a', 1));
    await expect.poll(() => keeper.failures.length).toBeGreaterThan(0);
    expect(server.vsctl('list-ports', 'br-int')).toBe('');
    thief.abort();
    await running;
    await keeper.realized('a', revision);
    expect(keeper.refused).toEqual([]);
    expect(server.vsctl('list-ports', 'br-int')).toBe('a\n');
  });

  it('does not wait forever for a row that is deleted immediately', async () => {
    for (let round = 1; round <= 10; round++) {
      const name = `q${round}`;
      const revision = keeper.want(name, port(name, round));
      const removals = (async () => {
        for (let times = 0; times < 4; times++) {
          server.vsctl('--if-exists', 'del-port', 'br-int', name);
          await sleep(1);
        }
      })();
      await Promise.all([keeper.realized(name, revision), removals]);
    }
  });
});
