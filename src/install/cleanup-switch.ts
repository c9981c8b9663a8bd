import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { within } from '../base/async/time-limit.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { OvsdbClient } from '../ovsdb/client.ts';
import { openVswitch } from '../ovsdb/schema/open-vswitch.ts';
import type { Leftover } from './leftover.ts';

const monitored = {
  Open_vSwitch: ['bridges', 'datapaths', 'other_config', 'next_cfg', 'cur_cfg'],
  Datapath: ['external_ids'],
  Bridge: ['name', 'external_ids', 'ports'],
  Port: ['name', 'external_ids'],
} as const;

/** Key of the agent in `external_ids`. */
const ownerKey = 'seine-owner';
const restoreKey = 'flow-restore-wait';
/** Maximum time for an answer of OVSDB and of ovs-vswitchd (ms). */
const databasePatienceMs = 3_000;
const switchPatienceMs = 20_000;

interface SwitchLeftovers {
  readonly items: readonly Leftover[];
  readonly obstacles: readonly string[];
  /** Pods in OVSDB; the interface may be missing, if a pod was deleted while no agent ran. */
  readonly pods: readonly LeftoverPod[];
}

interface LeftoverPod {
  /** `namespace/pod`. */
  readonly pod: string;
  /** The node's end of its interface, which has the name of the port. */
  readonly link: string;
}

interface SwitchLocation {
  readonly ovsRunFolder: string;
  readonly bridge: string;
}

type CleanupDatabase = OvsdbClient<typeof openVswitch, typeof monitored>;

/** Lists the bridge, if OVSDB can be reached. */
export async function switchLeftovers({ ovsRunFolder, bridge }: SwitchLocation, signal: AbortSignal): Promise<SwitchLeftovers> {
  const path = join(ovsRunFolder, 'db.sock');
  if (!existsSync(path)) return { items: [], pods: [], obstacles: [noSwitch(path)] };
  try {
    return await withDatabase(path, signal, (client) => {
      const row = client.tables.Bridge.find('name', bridge);
      if (row === undefined || row.external_ids.get(ownerKey) === undefined) return { items: [], pods: [], obstacles: [] };
      const ports = [...row.ports].flatMap((uuid) => client.tables.Port.get(uuid) ?? []);
      const pods = ports.flatMap(({ name, external_ids: ids }) =>
        ids.has('container-id') ? [{ pod: `${ids.get('pod-namespace') ?? '-'}/${ids.get('pod-name') ?? '-'}`, link: name }] : [],
      );
      const remove = async (end: AbortSignal) => await withDatabase(path, end, async (own) => await removeBridge(own, bridge, end));
      return { items: [{ what: `bridge ${bridge} with ${ports.length} ports and all its flows`, remove }], pods, obstacles: [] };
    });
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return { items: [], pods: [], obstacles: [noSwitch(path)] };
  }
}

function noSwitch(path: string): string {
  return `no Open vSwitch answers on ${path}: its bridge cannot be removed; keep DaemonSet seine-ovs until the nodes are clean`;
}

async function withDatabase<T>(path: string, signal: AbortSignal, work: (client: CleanupDatabase) => T | Promise<T>): Promise<T> {
  const own = new AbortController();
  const client = new OvsdbClient({ database: openVswitch, endpoint: `unix:${path}`, monitor: monitored });
  const running = client.run(AbortSignal.any([signal, own.signal]));
  try {
    await client.synced(within(signal, databasePatienceMs));
    return await work(client);
  } finally {
    own.abort();
    await running.catch(() => undefined); // it ends because it was aborted
  }
}

/**
 * Waits until ovs-vswitchd has applied it: its interfaces are removed then. An ovs-vswitchd that waits for flows is released, as none will
 * come.
 */
async function removeBridge(client: CleanupDatabase, bridge: string, signal: AbortSignal): Promise<void> {
  const [before] = client.tables.Open_vSwitch.rows();
  const row = client.tables.Bridge.find('name', bridge);
  if (row === undefined || before === undefined) return;
  const ofOurs = [...before.datapaths].filter(([, uuid]) => client.tables.Datapath.get(uuid)?.external_ids.has(ownerKey));
  const types = ofOurs.map(([type]) => type);
  await client.transact((tx) => {
    if (types.length > 0) tx.mutate('Open_vSwitch', [], ['datapaths', 'delete keys', types]);
    tx.mutate(
      'Open_vSwitch',
      [],
      ['bridges', 'delete', [row._uuid]],
      ['next_cfg', '+=', 1n],
      ['other_config', 'delete keys', [restoreKey]],
    );
  }, signal);
  const patience = within(signal, switchPatienceMs);
  try {
    await client.tables.Open_vSwitch.when(before._uuid, (now) => (now && now.cur_cfg > before.next_cfg ? true : undefined), patience);
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new SeineError('UNAVAILABLE', 'ovs-vswitchd does not remove the bridge: it does not run; the bridge is removed when it starts', {
      cause,
    });
  }
}
