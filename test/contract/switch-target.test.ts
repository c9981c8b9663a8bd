import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DesiredState } from '../../src/datapath/desired-state.ts';
import { Reconciler } from '../../src/datapath/reconciler.ts';
import { openSwitchDatabase, type SwitchDatabase } from '../../src/datapath/switch-database.ts';
import { portKey, type SwitchEntry, type SwitchKey, sameSwitchEntry } from '../../src/datapath/switch-entry.ts';
import { SwitchTarget } from '../../src/datapath/switch-target.ts';
import type { SeineError } from '../../src/errors/seine-error.ts';
import { TestOvsdbServer } from '../integration/ovsdb-server.ts';

const lockName = 'seine_test';
const bridge: SwitchEntry = {
  kind: 'bridge',
  bridge: { name: 'br-int', datapathType: 'netdev', tableNames: new Map([[0, 'classify']]), externalIds: {} },
};

function port(name: string, ofPort: number): ReadonlyMap<SwitchKey, SwitchEntry> {
  return new Map([[portKey(name), { kind: 'port', port: { name, type: '', ofPort, options: {}, externalIds: { of: name } } }]]);
}

/** The part of the agent that keeps rows of the switch's database as wanted. */
class Keeper {
  readonly stop = new AbortController();
  readonly database: SwitchDatabase;
  readonly desired = new DesiredState<SwitchKey, SwitchEntry>({ equal: sameSwitchEntry });
  readonly refused: string[] = [];
  readonly failures: SeineError[] = [];
  readonly reconciler: Reconciler<SwitchKey, SwitchEntry>;
  readonly running: Promise<unknown>;

  constructor(socketPath: string) {
    this.database = openSwitchDatabase(socketPath, { synced: () => this.reconciler.distrust() });
    this.reconciler = new Reconciler({
      name: 'switch',
      desired: this.desired,
      target: new SwitchTarget(this.database, 'br-int', lockName),
      equal: sameSwitchEntry,
      backoffMs: () => 20,
      portionSize: 64,
      now: () => performance.now(),
      events: {
        round: () => {},
        failure: (error) => this.failures.push(error),
        refused: (owner, error) => this.refused.push(`${owner}: ${error.message}`),
        drift: () => {},
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

describe('the switch’s database', () => {
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

  it('takes every port, however often its server dies meanwhile', async () => {
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

  it('does not wait for ever for a row that somebody takes away at once', async () => {
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
