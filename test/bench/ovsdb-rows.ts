import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import type { NewRow } from '../../src/ovsdb/schema/atoms.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const ovsdbRowNames = ['ovsdb.ports64.on10', 'ovsdb.ports64.on300', 'ovsdb.rss10k'] as const;

const inFlight = 64;
const runs = 9;
const manyPorts = 10_000;
const memoryRuns = 3;
const execute = promisify(execFile);

export async function ovsdbRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const rows: Measured[] = [];
  for (const present of [10, 300]) {
    const name = `ovsdb.ports64.on${present}`;
    if (selected(name)) rows.push(await portsRow(name, present, print));
  }
  if (selected('ovsdb.rss10k')) rows.push(await memoryRow(print));
  return rows;
}

function connect(socketPath: string) {
  return new OvsdbClient({
    database: openVswitch,
    endpoint: `unix:${socketPath}`,
    monitor: { Bridge: ['name'], Port: ['name'], Interface: ['name', 'ofport'] },
  });
}

type Client = ReturnType<typeof connect>;

/** Sixty-four callers who each add a port to a bridge of a userspace data path, from the first call until the last port has its number. */
async function portsRow(name: string, present: number, print: (text: string) => void): Promise<Measured> {
  print(`${inFlight} ports in flight on a bridge of ${present}`);
  const ovs = startSwitch('--disable-system');
  const stop = new AbortController();
  try {
    addLinks(ovs, present + inFlight);
    ovs.exec('ovs-vsctl', 'add-br', 'br0', '--', 'set', 'Bridge', 'br0', 'datapath_type=netdev');
    ovs.exec('ovs-vsctl', ...linkNames(0, present).flatMap((link) => ['--', 'add-port', 'br0', link]));
    const client = connect(join(ovs.runDir, 'db.sock'));
    const running = client.run(stop.signal);
    await client.synced(stop.signal);
    const links = linkNames(present, inFlight);
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let run = 0; run < runs; run++) {
      const sides = [
        { into: ours, add: () => addPorts(client, links, stop.signal) },
        { into: theirs, add: async () => void ovs.exec('ovs-vsctl', ...links.flatMap((link) => ['--', 'add-port', 'br0', link])) },
      ];
      for (const { into, add } of run % 2 === 0 ? sides : sides.toReversed()) {
        const startedMs = performance.now();
        await add();
        into.push((inFlight / (performance.now() - startedMs)) * 1_000);
        ovs.exec('ovs-vsctl', ...links.flatMap((link) => ['--', 'del-port', 'br0', link]));
      }
    }
    stop.abort();
    await running;
    return { name, unit: 'ports/s', ours, peer: { name: 'one ovs-vsctl that adds all 64', values: theirs } };
  } finally {
    stop.abort();
    await ovs.stop();
  }
}

/** Names of `count` links, from the one numbered `from`. */
function linkNames(from: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `v${from + index}`);
}

function addLinks(ovs: TestSwitch, count: number): void {
  const batch = linkNames(0, count).flatMap((link) => [`link add ${link} type veth peer name ${link}p`, `link set ${link} up`]);
  execFileSync('ip', ['-n', ovs.netns, '-batch', '-'], { input: `${batch.join('\n')}\n` });
}

async function addPorts(client: Client, links: readonly string[], signal: AbortSignal): Promise<void> {
  await Promise.all(links.map((link) => addPort(client, link, signal)));
}

async function addPort(client: Client, link: string, signal: AbortSignal): Promise<void> {
  let added: NewRow | undefined;
  const committed = await client.transact((tx) => {
    const row = tx.insert('Interface', { name: link });
    const port = tx.insert('Port', { name: link, interfaces: [row] });
    tx.mutate('Bridge', [['name', '==', 'br0']], ['ports', 'insert', [port]]);
    added = row;
  }, signal);
  if (added === undefined) throw new Error('the transaction was never described');
  await client.tables.Interface.when(committed.uuid(added), (row) => row?.ofport, signal);
}

/** The agent's copy of a database with this number of ports, in a separate process. */
async function memoryRow(print: (text: string) => void): Promise<Measured> {
  print(`the copy of ${manyPorts} ports`);
  const ovs = startSwitch();
  const stop = new AbortController();
  try {
    // No program is to create interfaces for them.
    await ovs.killVswitchd();
    const socketPath = join(ovs.runDir, 'db.sock');
    const client = connect(socketPath);
    const running = client.run(stop.signal);
    await fill(client, stop.signal);
    stop.abort();
    await running;
    const ours: number[] = [];
    for (let run = 0; run < memoryRuns; run++) {
      const script = join(import.meta.dirname, 'ovsdb-memory.ts');
      const { stdout } = await execute(process.execPath, ['--expose-gc', script, socketPath]);
      const { ports, mib } = JSON.parse(stdout) as { ports: number; mib: number };
      if (ports !== manyPorts) throw new Error(`the copy has ${ports} ports`);
      ours.push(mib);
    }
    return { name: 'ovsdb.rss10k', unit: 'MiB', ours };
  } finally {
    stop.abort();
    await ovs.stop();
  }
}

/** Ports as the agent creates them, with the columns that it writes. */
async function fill(client: Client, signal: AbortSignal): Promise<void> {
  await client.transact((tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'br0' })]]), signal);
  const step = 250;
  for (let from = 0; from < manyPorts; from += step) {
    await client.transact((tx) => {
      const ports = Array.from({ length: step }, (_, index) => {
        const name = `p${from + index}`;
        const external_ids = new Map([
          ['seine-pod', `default/${name}`],
          ['seine-container', `${from + index}`.padStart(64, 'a')],
          ['seine-interface', 'eth0'],
          ['seine-addresses', `10.10.${(from + index) >> 8}.${(from + index) & 255}`],
        ]);
        const row = tx.insert('Interface', {
          name,
          ofport_request: 1 + from + index,
          mac: '0e:00:00:00:00:05',
          external_ids: [['pod', name]],
        });
        return tx.insert('Port', { name, interfaces: [row], external_ids });
      });
      tx.mutate('Bridge', [], ['ports', 'insert', ports]);
    }, signal);
  }
}
