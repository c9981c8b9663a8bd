import type { Finding } from '../../agent-api/check.ts';
import { readDataPathFacts } from '../../datapath/data-path-facts.ts';
import { abilitiesOf, type MissingFeature, missingIn } from '../../datapath/data-path-features.ts';
import { presentTunnelPort } from '../node-wishes.ts';
import { ovsVersion } from '../versions.ts';
import { type Check, fine, tellAll, trouble } from './check.ts';

/** Below this nothing was ever tried; from `whole` on everything is there (`NXT_CT_FLUSH`, ADR 24). */
const least = [2, 17] as const;
const whole = [3, 1] as const;

/** How long a switch that is busy may take to say who it is (ms). */
const PATIENCE_MS = 4_000;

export interface SwitchFacts {
  /** Where the socket of the database is. */
  readonly runDir: string;
  readonly connections: { readonly database: boolean; readonly flows: boolean; readonly packets: boolean };
  readonly version: string | undefined;
  readonly dataPath: string;
  readonly tunnel: string;
  readonly dataPathTypes: readonly string[];
  /** What the data path lacks and what does not work without it. */
  readonly lacks: readonly MissingFeature[];
  readonly interfaceTypes: readonly string[];
  /** `flow-restore-wait` is set although the agent has filled the switch. */
  readonly held: boolean;
}

/** Whether Open vSwitch is there, of a version that is known, and has what is asked of it. */
export const openVswitch: Check = {
  name: 'ovs',
  run: async ({ agent }, tell, signal) => {
    const { plane, config, readiness } = agent;
    const [row] = plane.database.tables.Open_vSwitch.rows();
    tellAll(
      tell,
      judgeSwitch({
        runDir: config.ovsRunDir,
        connections: { database: plane.database.isSynced, flows: plane.openflow.isUp, packets: plane.packets.connection.isUp },
        version: (await ovsVersion(plane.openflow, signal, PATIENCE_MS)) ?? row?.ovs_version,
        dataPath: config.ovsDatapathType,
        tunnel: presentTunnelPort(agent),
        lacks: missingIn(abilitiesOf(await readDataPathFacts(config.ovsDatapathType, plane, signal))),
        dataPathTypes: [...(row?.datapath_types ?? [])],
        interfaceTypes: [...(row?.iface_types ?? [])],
        held: readiness.state().state === 'ready' && row?.other_config.get('flow-restore-wait') === 'true',
      }),
    );
  },
};

export function judgeSwitch(facts: SwitchFacts): readonly Finding[] {
  return [judgeConnections(facts), ...(facts.connections.database ? [judgeVersion(facts.version), judgeFeatures(facts)] : [])];
}

function judgeConnections({ connections, runDir, held }: SwitchFacts): Finding {
  const { database, flows, packets } = connections;
  if (!database)
    return trouble('ovs.connection', 'problem', {
      what: `no answer from the switch database, ${runDir}/db.sock`,
      effect: 'what is connected stays connected; no pod starts, nothing that changes reaches the switch',
      mend: 'systemctl restart openvswitch-switch    # in a cluster: kubectl -n seine-system logs ds/seine-ovs',
    });
  if (!flows || !packets)
    return trouble('ovs.connection', 'problem', {
      what: `ovs-vswitchd does not answer on the bridge's socket in ${runDir}`,
      effect: 'on the userspace data path pods have no network; on the kernel’s only what is in its cache is forwarded',
      mend: 'systemctl restart openvswitch-switch    # in a cluster: kubectl -n seine-system logs ds/seine-ovs',
    });
  if (held)
    return trouble('ovs.connection', 'problem', {
      what: 'flow-restore-wait is set: ovs-vswitchd waits to be filled, and the agent has filled it',
      effect: 'new connections are not forwarded',
      mend: 'ovs-vsctl remove Open_vSwitch . other_config flow-restore-wait',
    });
  return fine('ovs.connection', `connected in ${runDir}`);
}

export function judgeVersion(version: string | undefined): Finding {
  const found = /^(\d+)\.(\d+)/.exec(version ?? '');
  if (!found)
    return trouble('ovs.version', 'unknown', {
      what: 'Open vSwitch does not say its version',
      effect: 'whether it can what is asked of it is not known',
    });
  const number = [Number(found[1]), Number(found[2])] as const;
  if (isBefore(number, least))
    return trouble('ovs.version', 'problem', {
      what: `Open vSwitch ${version} is older than ${least.join('.')}`,
      effect: 'flows may be refused, and nobody has tried it',
      mend: 'apt-get install --only-upgrade openvswitch-switch',
    });
  if (isBefore(number, whole))
    return trouble('ovs.version', 'warning', {
      what: `Open vSwitch ${version} is older than ${whole.join('.')}`,
      effect: 'it cannot forget single connections: UDP clients of a Service go on to an endpoint that is gone until they pause',
      mend: 'apt-get install --only-upgrade openvswitch-switch',
    });
  return fine('ovs.version', `Open vSwitch ${version}`);
}

function isBefore([major, minor]: readonly [number, number], [a, b]: readonly [number, number]): boolean {
  return major < a || (major === a && minor < b);
}

function judgeFeatures({ dataPath, tunnel, dataPathTypes, interfaceTypes, lacks }: SwitchFacts): Finding {
  if (!dataPathTypes.includes(dataPath))
    return trouble('ovs.features', 'problem', {
      what: `ovs-vswitchd has no data path ${dataPath}; it has ${dataPathTypes.join(', ') || 'none'}`,
      effect: 'the bridge forwards nothing',
      mend: dataPath === 'system' ? 'modprobe openvswitch' : 'ovsDatapathType: system    # in the configuration of the agent',
    });
  if (!interfaceTypes.includes(tunnel))
    return trouble('ovs.features', 'problem', {
      what: `ovs-vswitchd has no interfaces of type ${tunnel}; it has ${interfaceTypes.join(', ') || 'none'}`,
      effect: 'pods of other nodes are not reached',
      mend: 'tunnelType: geneve    # in the configuration of every agent',
    });
  if (lacks.length > 0)
    return trouble('ovs.features', 'problem', {
      what: `the data path ${dataPath} lacks ${lacks.map(({ feature }) => feature).join(', ')}`,
      effect: [...new Set(lacks.map(({ consequence }) => consequence))].join('; '),
      mend:
        dataPath === 'system' ? 'uname -r; modinfo openvswitch    # a newer kernel' : 'apt-get install --only-upgrade openvswitch-switch',
    });
  return fine('ovs.features', `has the data path ${dataPath} and ${tunnel} tunnels`);
}
