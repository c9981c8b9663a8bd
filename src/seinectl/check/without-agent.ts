import { join } from 'node:path';
import type { Finding } from '../../api/check.ts';
import { abortable } from '../../base/async/abortable.ts';
import { OvsdbClient } from '../../ovsdb/client.ts';
import { openVswitch } from '../../ovsdb/schema/open-vswitch.ts';
import { messageOf } from './failures.ts';

const monitored = { Open_vSwitch: ['ovs_version', 'other_config'], Bridge: ['name', 'datapath_type'] } as const;
/** Maximum time for an answer of OVSDB on this host (ms). */
const PATIENCE_MS = 3_000;

/** Findings about a node whose agent does not answer: that, and whether ovs-vswitchd forwards. */
export async function checkWithoutAgent(socketPath: string, why: string, ovsRunDir: string): Promise<readonly Finding[]> {
  const agent: Finding = {
    check: 'agent',
    state: 'problem',
    what: `no agent answers on ${socketPath}: ${why}; kernel, tunnels, firewall rules, clock and API server are not checked`,
    effect: 'what is connected stays connected; no pod starts, and nothing that changes in the cluster is seen',
    remedy:
      'kubectl -n seine-system logs -l app.kubernetes.io/name=seine-agent --tail 20; seinectl check --socket PATH    # if it is elsewhere',
  };
  return [agent, await checkSwitch(ovsRunDir)];
}

async function checkSwitch(ovsRunDir: string): Promise<Finding> {
  const endpoint = join(ovsRunDir, 'db.sock');
  const stop = new AbortController();
  const synced = Promise.withResolvers<void>();
  const hooks = { synced: synced.resolve, failed: synced.reject };
  const client = new OvsdbClient({ database: openVswitch, endpoint: `unix:${endpoint}`, monitor: monitored, hooks });
  const running = client.run(stop.signal).catch(() => undefined); // it ends with this process
  try {
    await abortable(synced.promise, AbortSignal.timeout(PATIENCE_MS));
    const [row] = client.tables.Open_vSwitch.rows();
    const bridges = [...client.tables.Bridge.rows()].map(({ name, datapath_type: type }) => `${name} (${type === '' ? 'system' : type})`);
    const version = `Open vSwitch ${row?.ovs_version ?? 'of unknown version'}`;
    if (row?.other_config.get('flow-restore-wait') === 'true')
      return {
        check: 'ovs',
        state: 'problem',
        what: `${version} waits to be filled (flow-restore-wait), which the agent does`,
        effect: 'new connections are not forwarded',
        remedy: 'kubectl -n seine-system rollout restart daemonset/seine-agent',
      };
    return { check: 'ovs', state: 'ok', what: `${version}; bridges: ${bridges.join(', ') || 'none'}` };
  } catch (thrown) {
    return {
      check: 'ovs',
      state: 'problem',
      what: `no answer from OVSDB, ${endpoint}: ${messageOf(thrown)}`,
      effect: 'on the userspace data path pods have no network; on the kernel’s only what is in its cache is forwarded',
      remedy: 'systemctl restart openvswitch-switch    # in a cluster: kubectl -n seine-system logs ds/seine-ovs',
    };
  } finally {
    stop.abort();
    await running;
  }
}
