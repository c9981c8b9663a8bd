/** State of the node that affects packets, and how a change of it is detected and repaired. `docs/reliability.md` shows the table. */
export interface HeldState {
  readonly state: string;
  /** Event that reports a change, and the periodic check that finds it without one. */
  readonly found: string;
  /** Maximum time from a change while the agent runs to its repair, or to its report if nothing is repaired (ms). */
  readonly withinMs: number;
  readonly repaired: string;
  /** Target in the status, metric and log line that report it. */
  readonly reported: string;
  /** Names of alerts. */
  readonly alerts: readonly string[];
  /**
   * Tests under `test/`, without `.test.ts`, that inject it with and without the agent. The first does so by the row's name, with
   * `driftTests`, or by these titles.
   */
  readonly tests: readonly string[];
  readonly titles?: readonly string[];
}

/** Limit for changes that an event reports: less than the sweep takes, on a busy host. */
const ANNOUNCED_MS = 3_000;
/** Limit for changes that only the sweep finds, which runs every four seconds on a small node. */
const SWEPT_MS = 8_000;

const part = (name: string): string => `part \`${name}\`; log, \`drift_entries_total{part="${name}"}\``;
const repairable = ['SeineDrift', 'SeineContested', 'SeineEntriesRefused'] as const;

export const heldStates = {
  flows: {
    state: 'Flows',
    found: 'flow monitor; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, in one bundle',
    reported: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  groups: {
    state: 'Groups of Services',
    found: 'group monitor; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, with the flows that depend on them',
    reported: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  meters: {
    state: 'Meters of pods',
    found: 'meter monitor; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, with the flows that depend on them',
    reported: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  'learned flows': {
    state: 'Learned flows without a flow that teaches them',
    found: 'flow monitor; sweep; at the start, once all sources are synced',
    withinMs: ANNOUNCED_MS,
    repaired: 'removed. A deleted one is learned again with the next packet',
    reported: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge', 'integration/learned-flows'],
  },
  'openflow settings': {
    state: 'OpenFlow settings of ports (`no-forward`, `no-receive`, `no-packet-in`) and of fragments',
    found: 'port status messages; sweep for fragments',
    withinMs: SWEPT_MS,
    repaired: 'restored',
    reported: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  'bridge row': {
    state: 'Bridge row in OVSDB',
    found: 'OVSDB updates; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again',
    reported: part('switch'),
    alerts: repairable,
    tests: ['e2e/drift-switch'],
  },
  'port rows': {
    state: 'Port and Interface rows of pods, gateway and tunnel',
    found: 'OVSDB updates; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again',
    reported: part('switch'),
    alerts: repairable,
    tests: ['e2e/drift-switch'],
  },
  gateway: {
    state: 'Gateway interface',
    found: 'link events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'settings restored, or the interface recreated by OVS',
    reported: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  addresses: {
    state: 'Gateway addresses',
    found: 'address events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'restored; foreign ones are removed',
    reported: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  routes: {
    state: 'Routes',
    found: 'route events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'restored',
    reported: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  rules: {
    state: 'Routing rules for external addresses of Services',
    found: 'rule events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'restored; foreign ones with Seine’s protocol number are removed',
    reported: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  routing: {
    state: 'Routing rules and routes of other programs that divert packets for pods or Services',
    found: 'check `routing` every four seconds, by route lookups in the kernel',
    withinMs: SWEPT_MS,
    repaired: 'reported only',
    reported: 'problem `node` for `routing/NETWORK`, with the commands that show it',
    alerts: ['SeineProblem', 'SeineHealthCheckOverdue'],
    tests: ['e2e/drift-host'],
    titles: ['is reported while the agent runs, and until it is removed: $what', 'is reported by an agent that starts'],
  },
  neighbours: {
    state: 'Permanent neighbor entries of the gateway',
    found: 'neighbor events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'restored',
    reported: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  'kernel settings': {
    state: 'Kernel settings: forwarding, gateway settings, checksum offload of taps',
    found: 'kernel events (forwarding, `rp_filter`, taps), reconnection to OVS; sweep',
    withinMs: SWEPT_MS,
    repaired: 'written again, except with `hostSettings: check`',
    reported: `${part('settings')}; a warning with the file that sets it`,
    alerts: [...repairable, 'SeineNodeWarning'],
    tests: ['e2e/drift-host', 'integration/host-settings'],
  },
  'pods’ interfaces': {
    state: 'Pod interfaces: existence, state, MTU, MAC, alias, namespace',
    found: 'link events of the kernel for the node’s end; sweep',
    withinMs: SWEPT_MS,
    repaired: 'settings restored, or the interface recreated in the pod’s namespace',
    reported: part('links'),
    alerts: repairable,
    tests: ['e2e/converge-links', 'contract/links-target'],
    titles: ['is restored after $name, which `seinectl diff` shows', 'is restored after all of that happened while no agent ran'],
  },
  'inside pods': {
    state: 'Addresses and routes inside pods',
    found: 'sweep',
    withinMs: SWEPT_MS,
    repaired: 'reported only; restored with `repairPods: true`',
    reported: 'a warning in the status that names pod and difference',
    alerts: ['SeineNodeWarning'],
    tests: ['e2e/converge-links', 'integration/repair-pods'],
    titles: ['is reported as changed inside, agent alive or dead before, and not repaired'],
  },
  'CNI files': {
    state: 'CNI configuration and plugins on disk',
    found: 'check `cni` every ten seconds',
    withinMs: 15_000,
    repaired: 'restored from the copies of `install-cni`; plugins appended to the list by others stay',
    reported: 'problem `cni`, check `cni`, `look_repairs_total`',
    alerts: ['SeineProblem', 'SeineHealthCheckOverdue'],
    tests: ['e2e/health-checks'],
    titles: [
      'foreign CNI files are reported, and changed ones restored; additions of a service mesh are kept',
      'restores CNI files that were changed while no agent ran',
    ],
  },
  journal: {
    state: 'IPAM journal',
    found: 'check `journal` every fifteen seconds; at the start',
    withinMs: 45_000,
    repaired: 'written again from the leases in memory',
    reported: 'problem `journal`, check `journal`, `look_repairs_total`',
    alerts: ['SeineProblem', 'SeineHealthCheckOverdue'],
    tests: ['e2e/health-checks', 'integration/ipam-disk'],
    titles: ['a journal that does not contain the present leases is rewritten'],
  },
  connections: {
    state: 'Conntrack entries to deleted endpoints, ports or Services (UDP, SCTP)',
    found: 'watch events; at the start, once all sources are synced',
    withinMs: SWEPT_MS,
    repaired: 'deleted; more than 30 % of them after ten seconds',
    reported: 'problem `held` while they wait; `service_stale_connections_total`',
    alerts: ['SeineProblem'],
    tests: ['e2e/agent-away', 'e2e/service-endpoints'],
    titles: ['leave an endpoint that is removed', 'are no longer served by a deleted Service', 'are no longer served at a deleted port'],
  },
  'packet filter': {
    state: 'nftables tables: chains, rules, sets, elements',
    found: 'nftables events of the kernel; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'table or element rewritten in one transaction',
    reported: part('firewall'),
    alerts: repairable,
    tests: ['e2e/drift-firewall'],
  },
} as const satisfies Readonly<Record<string, HeldState>>;

export type HeldStateId = keyof typeof heldStates;
