import type { SuspensionView } from '../../api/policy.ts';
import { sourceName } from '../../api/source-name.ts';
import type { AgentStatus, ConnectionStatus, NetworkPolicyStatus, PartStatus, PoolStatus, SourceStatus } from '../../api/status.ts';
import { safeLine } from '../escape.ts';
import { type Room, type TableColumn, tableLines } from '../table.ts';
import { count, duration } from '../words.ts';
import { healthChecksText, problemLines, verdictLines } from './health-lines.ts';
import { connectionWords, partWords, sourceReliance, sourceWords } from './status-words.ts';

/** Lag above which pods' ADDs and everything else are affected (ms). */
const LAG_WORTH_SAYING_MS = 200;
/** The page of `seinectl status`: first whether all is well, then the details. */
export function statusLines(status: AgentStatus, room: Room): string[] {
  const { paint } = room;
  const { state } = status.readiness;
  const { versions, bridge } = status;
  return [
    `${paint('strong', safeLine(status.node))}  ${paint(state === 'ready' ? 'good' : 'bad', state.toUpperCase())}  up ${duration(status.uptimeSeconds)}`,
    safeLine(
      `Seine ${versions.seine}, Node ${versions.node}, Open vSwitch ${versions.ovs ?? 'unknown'}; ${bridge.name} (${bridge.dataPath}); pid ${status.pid}`,
    ),
    '',
    ...problemLines(status, room),
    ...remarks(status).map((remark) => `${paint('warning', '*')} ${remark}`),
    ...verdictLines(status, room),
    '',
    ...facts(status).map(([name, value]) => `${(name === '' ? '' : `${name}:`).padEnd(11)}${safeLine(value)}`),
    '',
    ...tableLines(partColumns, status.parts, room),
    '',
    ...tableLines(followedColumns, [...status.connections.map(connectionRow), ...status.sources.map(sourceRow)], room),
  ];
}

/** Remarks that are not problems. */
function remarks({ networkPolicy, parts, eventLoop, repair, problems, ...status }: AgentStatus): string[] {
  const drifted = parts.filter(({ drift }) => drift > 0);
  return [
    // For an agent up to 0.3.0.
    ...(networkPolicy.enforcement === 'not enforced' && networkPolicy.objects > 0
      ? [`NetworkPolicy is not enforced: ${count(networkPolicy.objects, 'object')} without effect, all traffic is allowed`]
      : []),
    // Agents that report problems list it there.
    ...(repair && problems === undefined
      ? [`repair is paused: foreign changes stay for another ${duration(repair.pausedForSeconds)}`]
      : []),
    ...drifted.map(
      ({ part, drift }) =>
        `${partWords[part] ?? part}: ${count(drift, 'entry', 'entries')} repaired after foreign changes${part === 'bridge' ? ' or a restart of Open vSwitch' : ''}`,
    ),
    ...(status.healthChecks ?? []).flatMap(({ name, repaired = 0 }) =>
      repaired > 0 ? [`${name}: ${count(repaired, 'fault')} repaired; the log has each`] : [],
    ),
    ...(eventLoop.lagMsMax > LAG_WORTH_SAYING_MS
      ? [`the agent was up to ${Math.round(eventLoop.lagMsMax)} ms late in the last minutes`]
      : []),
  ].map(safeLine);
}

function facts(status: AgentStatus): [string, string][] {
  const { bridge, dataPath, network, pods, peers, services, proxy, networkPolicy, switches = [] } = status;
  const checks = healthChecksText(status);
  return [
    ...(network
      ? [
          [
            'Tunnels',
            `${network.tunnel} from ${network.transport.join(' and ')}, pods' MTU ${network.mtu}, ${network.snat ? 'masquerade' : 'no masquerade'}`,
          ] as [string, string],
        ]
      : []),
    ...(dataPath ? [['Data path', dataPathText(bridge.dataPath, dataPath)] as [string, string]] : []),
    ['Pods', `${pods.attached} attached`],
    ...pods.pools.map((pool, at): [string, string] => [at === 0 ? 'Addresses' : '', poolText(pool)]),
    ['Nodes', `${count(peers, 'other node')}`],
    ['Services', `${services} served${network && network.serviceCidrs.length > 0 ? `, from ${network.serviceCidrs.join(' and ')}` : ''}`],
    ['proxyAll', proxy.proxyAll],
    ...(proxy.healthz === undefined ? [] : [['healthz', proxy.healthz] as [string, string]]),
    ['Policies', policiesText(networkPolicy)],
    ...(status.cni ? [['CNI', chainText(status.cni)] as [string, string]] : []),
    ...switches.map((each, at): [string, string] => [at === 0 ? 'Switches' : '', each]),
    ...(checks === undefined ? [] : [['Checks', checks] as [string, string]]),
  ];
}

function policiesText({ enforcement, mode, denied, objects, selecting = 0, isolatedPods = 0, ...more }: NetworkPolicyStatus): string {
  if (enforcement === 'not enforced') return 'NetworkPolicy: not enforced by this version';
  const { closedPods = [], suspensions = [], clusterObjects = 0, clusterSelecting = 0 } = more;
  const suspended = suspensions.length === 0 ? '' : `; suspended for ${suspensions.map(suspendedText).join(', ')}`;
  const ofCluster = clusterObjects > 0 ? ` and ${clusterSelecting} of ${clusterObjects} ClusterNetworkPolicies` : '';
  const effect = `${mode === undefined || mode === 'enforce' ? 'enforced' : mode}${denied === 'reject' ? ', denied pods are refused' : ''}`;
  const selected = `${effect}, ${selecting} of ${objects} NetworkPolicies${ofCluster} select ${count(isolatedPods, 'pod')} here${suspended}`;
  if (closedPods.length === 0) return selected;
  const reasons = [...new Set(closedPods.map(({ why }) => why))];
  return `${selected}; ${count(closedPods.length, 'pod')} blocked: ${reasons.join('; ')}`;
}

function suspendedText({ what, name }: SuspensionView): string {
  return what === 'node' ? 'this node' : `${what} ${name}`;
}

function chainText({ chain, added }: NonNullable<AgentStatus['cni']>): string {
  return `${chain.join(' → ')}${added.length > 0 ? `; added by others: ${added.join(', ')}` : ''}`;
}

const dataPathWords = { system: 'the kernel’s', netdev: 'in userspace' } as const;

/** `--json` has all of it; here only differences between data paths: what this one lacks. */
function dataPathText(type: AgentStatus['bridge']['dataPath'], abilities: NonNullable<AgentStatus['dataPath']>): string {
  const named = (value: boolean | null) => Object.keys(abilities).filter((feature) => abilities[feature] === value);
  const [lacking, unknown] = [named(false), named(null)];
  const has = Object.keys(abilities).length - lacking.length - unknown.length;
  return [
    `${dataPathWords[type]}: ${count(has, 'feature')}`,
    ...(lacking.length > 0 ? [`without ${lacking.join(', ')}`] : []),
    ...(unknown.length > 0 ? [`not reported: ${unknown.join(', ')}`] : []),
  ].join('; ');
}

/** The size of an IPv6 range is not useful. */
function poolText({ cidr, size, allocated, quarantined }: PoolStatus): string {
  const of = size < 1_000_000 ? ` of ${size}` : '';
  return `${cidr}: ${allocated}${of} in use${quarantined > 0 ? `, ${quarantined} in quarantine` : ''}`;
}

const partColumns: readonly TableColumn<PartStatus>[] = [
  { title: 'TARGET', of: ({ part }) => partWords[part] ?? part },
  { title: 'DESIRED', of: ({ wanted }) => String(wanted), align: 'right' },
  { title: 'PRESENT', of: ({ held }) => (held === null ? '?' : String(held)), align: 'right' },
  {
    title: 'STATE',
    of: ({ revision, realizedRevision, held, lastError }) =>
      lastError ? 'failing' : held === null ? 'observing' : revision > realizedRevision ? 'changing' : 'in sync',
    tone: ({ revision, realizedRevision, lastError }) => (lastError ? 'bad' : revision > realizedRevision ? 'warning' : 'good'),
  },
  { title: 'REPAIRED', of: ({ drift }) => String(drift), align: 'right' },
];

interface StatusRow {
  readonly name: string;
  readonly state: string;
  readonly good: boolean;
  readonly more: string;
}

const followedColumns: readonly TableColumn<StatusRow>[] = [
  { title: 'FOLLOWS', of: ({ name }) => name },
  { title: 'STATE', of: ({ state }) => state, tone: ({ good }) => (good ? 'good' : 'bad') },
  { title: '', of: ({ more }) => more, flexible: true },
];

function connectionRow({ name, up, connects, counters }: ConnectionStatus): StatusRow {
  const spoken = Object.entries(counters)
    .filter(([, value]) => value > 0)
    .map(([what, value]) => `${value} ${what.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`);
  const again = connects > 1 ? [`connected ${connects} times`] : [];
  return {
    name: connectionWords[name] ?? name,
    state: up ? 'connected' : 'not connected',
    good: up,
    more: [...again, ...spoken].join(', '),
  };
}

function sourceRow(source: SourceStatus): StatusRow {
  const { kind, objects } = source;
  const state = sourceReliance(source);
  return {
    name: `API server, ${sourceName(kind)}`,
    state: sourceWords[state] ?? state,
    good: state === 'in step',
    more: count(objects, 'object'),
  };
}
