import type { Finding } from '../../../api/check.ts';
import { readDatapathFacts } from '../../../dataplane/targets/switch/datapath-facts.ts';
import { capabilitiesOf, type MissingFeature, missingIn } from '../../../dataplane/targets/switch/datapath-features.ts';
import type { SwitchDatabase } from '../../../dataplane/targets/switch/switch-database.ts';
import type { TunnelPortType } from '../../../nodes/local/node-desired-state.ts';
import type { Readiness } from '../../../nodes/local/readiness.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { ovsVersion } from '../versions.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Versions below this were never tested; from `whole` on all features exist (`NXT_CT_FLUSH`, ADR 24). */
const least = [2, 17] as const;
const whole = [3, 1] as const;

/** Maximum time for the description of a busy ovs-vswitchd (ms). */
const PATIENCE_MS = 4_000;

export interface SwitchFacts {
  /** Folder of the database's socket. */
  readonly runDir: string;
  readonly connections: { readonly database: boolean; readonly flows: boolean; readonly packets: boolean };
  readonly version: string | undefined;
  readonly dataPath: string;
  readonly tunnel: string;
  readonly dataPathTypes: readonly string[];
  /** Missing features of the data path, and what does not work without them. */
  readonly lacks: readonly MissingFeature[];
  readonly interfaceTypes: readonly string[];
  /** True if `flow-restore-wait` is set although the agent has refilled the bridge. */
  readonly held: boolean;
}

export interface OpenVswitchPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev'; readonly ovsRunDir: string };
  readonly database: SwitchDatabase;
  readonly openflow: OpenFlowConnection;
  readonly packets: { readonly connection: { readonly isUp: boolean } };
  readonly readiness: Pick<Readiness, 'state'>;
  readonly tunnelPort: () => TunnelPortType;
}

/** Checks that Open vSwitch is connected, of a tested version, and has the required features. */
export function openVswitch({ config, database, openflow, packets, readiness, tunnelPort }: OpenVswitchPort): Check {
  return {
    name: 'ovs',
    run: async (_, reporter, signal) => {
      const [row] = database.tables.Open_vSwitch.rows();
      reportAll(
        reporter,
        assessSwitch({
          runDir: config.ovsRunDir,
          connections: { database: database.isSynced, flows: openflow.isUp, packets: packets.connection.isUp },
          version: (await ovsVersion(openflow, signal, PATIENCE_MS)) ?? row?.ovs_version,
          dataPath: config.ovsDatapathType,
          tunnel: tunnelPort(),
          lacks: missingIn(capabilitiesOf(await readDatapathFacts(config.ovsDatapathType, { database, openflow }, signal))),
          dataPathTypes: [...(row?.datapath_types ?? [])],
          interfaceTypes: [...(row?.iface_types ?? [])],
          held: readiness.state().state === 'ready' && row?.other_config.get('flow-restore-wait') === 'true',
        }),
      );
    },
  };
}

export function assessSwitch(facts: SwitchFacts): readonly Finding[] {
  return [assessConnections(facts), ...(facts.connections.database ? [assessVersion(facts.version), assessFeatures(facts)] : [])];
}

function assessConnections({ connections, runDir, held }: SwitchFacts): Finding {
  const { database, flows, packets } = connections;
  if (!database)
    return trouble('ovs.connection', 'problem', {
      what: `no answer from OVSDB, ${runDir}/db.sock`,
      effect: 'existing connections continue; no pod can start, and no change reaches OVS',
      remedy: 'systemctl restart openvswitch-switch    # in a cluster: kubectl -n seine-system logs ds/seine-ovs',
    });
  if (!flows || !packets)
    return trouble('ovs.connection', 'problem', {
      what: `ovs-vswitchd does not answer on the bridge's socket in ${runDir}`,
      effect: 'on the userspace data path pods have no network; on the kernel’s only what is in its cache is forwarded',
      remedy: 'systemctl restart openvswitch-switch    # in a cluster: kubectl -n seine-system logs ds/seine-ovs',
    });
  if (held)
    return trouble('ovs.connection', 'problem', {
      what: 'flow-restore-wait is set: ovs-vswitchd waits to be filled, and the agent has filled it',
      effect: 'new connections are not forwarded',
      remedy: 'ovs-vsctl remove Open_vSwitch . other_config flow-restore-wait',
    });
  return fine('ovs.connection', `connected in ${runDir}`);
}

export function assessVersion(version: string | undefined): Finding {
  const found = /^(\d+)\.(\d+)/.exec(version ?? '');
  if (!found)
    return trouble('ovs.version', 'unknown', {
      what: 'Open vSwitch does not report its version',
      effect: 'its features are unknown',
    });
  const number = [Number(found[1]), Number(found[2])] as const;
  if (isBefore(number, least))
    return trouble('ovs.version', 'problem', {
      what: `Open vSwitch ${version} is older than ${least.join('.')}`,
      effect: 'flows may be refused; this version was never tested',
      remedy: 'apt-get install --only-upgrade openvswitch-switch',
    });
  if (isBefore(number, whole))
    return trouble('ovs.version', 'warning', {
      what: `Open vSwitch ${version} is older than ${whole.join('.')}`,
      effect: 'it cannot delete single tracked connections: UDP clients of a Service keep sending to a removed endpoint until they pause',
      remedy: 'apt-get install --only-upgrade openvswitch-switch',
    });
  return fine('ovs.version', `Open vSwitch ${version}`);
}

function isBefore([major, minor]: readonly [number, number], [a, b]: readonly [number, number]): boolean {
  return major < a || (major === a && minor < b);
}

function assessFeatures({ dataPath, tunnel, dataPathTypes, interfaceTypes, lacks }: SwitchFacts): Finding {
  if (!dataPathTypes.includes(dataPath))
    return trouble('ovs.features', 'problem', {
      what: `ovs-vswitchd has no data path ${dataPath}; it has ${dataPathTypes.join(', ') || 'none'}`,
      effect: 'the bridge forwards nothing',
      remedy: dataPath === 'system' ? 'modprobe openvswitch' : 'ovsDatapathType: system    # in the configuration of the agent',
    });
  if (!interfaceTypes.includes(tunnel))
    return trouble('ovs.features', 'problem', {
      what: `ovs-vswitchd has no interfaces of type ${tunnel}; it has ${interfaceTypes.join(', ') || 'none'}`,
      effect: 'pods of other nodes are not reached',
      remedy: 'tunnelType: geneve    # in the configuration of every agent',
    });
  if (lacks.length > 0)
    return trouble('ovs.features', 'problem', {
      what: `the data path ${dataPath} lacks ${lacks.map(({ feature }) => feature).join(', ')}`,
      effect: [...new Set(lacks.map(({ consequence }) => consequence))].join('; '),
      remedy:
        dataPath === 'system' ? 'uname -r; modinfo openvswitch    # a newer kernel' : 'apt-get install --only-upgrade openvswitch-switch',
    });
  return fine('ovs.features', `has the data path ${dataPath} and ${tunnel} tunnels`);
}
