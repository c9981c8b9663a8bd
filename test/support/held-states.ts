/** A state that decides what a packet meets: who watches it, and how. `docs/reliability.md` shows the table. */
export interface HeldState {
  readonly state: string;
  /** By which news, and by which look where none comes. */
  readonly found: string;
  /** From a change while the agent runs to its repair, or to its report where nothing is repaired (ms). */
  readonly withinMs: number;
  readonly repaired: string;
  /** By which part of the status, which metric, which event. */
  readonly said: string;
  /** Names of alerts. */
  readonly alerts: readonly string[];
  /**
   * Tests under `test/`, without `.test.ts`, that harm it while the agent runs and while it does not. The first does so by the row's name,
   * with `harmTests`, or by these titles.
   */
  readonly tests: readonly string[];
  readonly titles?: readonly string[];
}

/** Told by an event: less than the sweep takes, on a machine that does other things as well. */
const ANNOUNCED_MS = 3_000;
/** Found by looking: the sweep of a node that is quick to look at comes every four seconds. */
const SWEPT_MS = 8_000;

const part = (name: string): string => `part \`${name}\`; log, \`drift_entries_total{part="${name}"}\``;
const repairable = ['SeineDrift', 'SeineContested', 'SeineWishRefused'] as const;

export const heldStates = {
  flows: {
    state: 'Flows',
    found: 'flow monitor, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, in one bundle',
    said: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  groups: {
    state: 'Groups of Services',
    found: 'forwarded group-mods, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, with the flows that went with them',
    said: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  meters: {
    state: 'Meters of pods',
    found: 'forwarded meter-mods, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again, with the flows that went with them',
    said: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  'learned flows': {
    state: 'Flows that the switch learned: one that no wanted step teaches, whatever its cookie says',
    found: 'flow monitor, at once; sweep; at the start, once every source is in step',
    withinMs: ANNOUNCED_MS,
    repaired: 'removed. One that is gone is learned anew with the next packet, and is not reported: it ends by itself as well',
    said: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge', 'integration/learned-flows'],
  },
  'openflow settings': {
    state: 'What OpenFlow sets beside flows: of our ports (`no-forward`, `no-receive`, `no-packet-in`), of fragments (`set-frags`)',
    found: 'port status, at once; fragments by the sweep',
    withinMs: SWEPT_MS,
    repaired: 'set back',
    said: part('bridge'),
    alerts: repairable,
    tests: ['e2e/drift-bridge'],
  },
  'bridge row': {
    state: 'The bridge’s row in the database of Open vSwitch',
    found: 'OVSDB updates, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again',
    said: part('switch'),
    alerts: repairable,
    tests: ['e2e/drift-switch'],
  },
  'port rows': {
    state: 'Rows of ports and interfaces: pods, gateway, tunnel',
    found: 'OVSDB updates, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'written again',
    said: part('switch'),
    alerts: repairable,
    tests: ['e2e/drift-switch'],
  },
  gateway: {
    state: 'The gateway’s interface',
    found: 'link events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'set back, or made anew by the switch',
    said: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  addresses: {
    state: 'Addresses of the gateway',
    found: 'address events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'set back; foreign ones are removed',
    said: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  routes: {
    state: 'Routes',
    found: 'route events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'set back',
    said: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  rules: {
    state: 'Rules of the routing policy for external addresses of Services',
    found: 'rule events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'set back; foreign ones with our protocol number are removed',
    said: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  routing: {
    state: 'Policy rules and routes of other programs that lead packets for pods or Services elsewhere',
    found: 'look `routing`, every four seconds: the kernel is asked which way it takes',
    withinMs: SWEPT_MS,
    repaired: 'reported only: they are not ours',
    said: 'problem `node` about `routing/NETWORK`, with the commands that show it',
    alerts: ['SeineProblem', 'SeineLookOverdue'],
    tests: ['e2e/drift-host'],
    titles: ['is said while the agent runs, and until it ends: $what', 'is said by an agent that starts'],
  },
  neighbours: {
    state: 'Permanent neighbours of the gateway',
    found: 'neighbour events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'set back',
    said: part('host'),
    alerts: repairable,
    tests: ['e2e/drift-host'],
  },
  'kernel settings': {
    state: 'Kernel settings of the node: forwarding, those of the gateway, and that what the node sends by a tap has its checksums',
    found: 'the kernel’s events (forwarding, `rp_filter`, taps), the switch that is back, at once; sweep',
    withinMs: SWEPT_MS,
    repaired: 'written again; never under `hostSettings: check`',
    said: `${part('settings')}; a warning with the file that sets it`,
    alerts: [...repairable, 'SeineNodeWarning'],
    tests: ['e2e/drift-host', 'integration/host-settings'],
  },
  'pods’ interfaces': {
    state: 'Pods’ interfaces: the node’s end there, up, MTU, alias, namespace; the pod’s end there, up, MTU, MAC',
    found: 'link events of the kernel for the node’s end, at once; sweep',
    withinMs: SWEPT_MS,
    repaired: 'set back, or made anew in the pod’s namespace',
    said: part('links'),
    alerts: repairable,
    tests: ['e2e/converge-links', 'contract/links-target'],
    titles: ['is as before after $name, which `seinectl diff` shows', 'is as before after all of that happened while no agent ran'],
  },
  'inside pods': {
    state: 'Addresses and routes inside pods',
    found: 'sweep',
    withinMs: SWEPT_MS,
    repaired: 'reported only; set back under `repairPods: true`',
    said: 'a warning of the status that names pod and difference',
    alerts: ['SeineNodeWarning'],
    tests: ['e2e/converge-links', 'integration/repair-pods'],
    titles: ['is said to be changed inside, agent alive or dead before, and left so until someone mends it'],
  },
  'CNI files': {
    state: 'CNI configuration and plugins on disk',
    found: 'look `cni`, every ten seconds',
    withinMs: 15_000,
    repaired: 'put back from the copies that `install-cni` keeps, where the agent may write; plugins that others appended to our list stay',
    said: 'problem `cni`, look `cni`, `look_repairs_total`',
    alerts: ['SeineProblem', 'SeineLookOverdue'],
    tests: ['e2e/health-checks'],
    titles: [
      'CNI files are named where they are not ours to change, and put back where they are; what a service mesh has added is kept',
      'puts the CNI files back though they were harmed while no agent ran',
    ],
  },
  journal: {
    state: 'The journal of addresses',
    found: 'look `journal`, every fifteen seconds; at the start it is read',
    withinMs: 45_000,
    repaired: 'written again from the leases in memory',
    said: 'problem `journal`, look `journal`, `look_repairs_total`',
    alerts: ['SeineProblem', 'SeineLookOverdue'],
    tests: ['e2e/health-checks', 'integration/ipam-disk'],
    titles: ['a journal that does not lead to the leases that there are is written again'],
  },
  connections: {
    state: 'Tracked connections of Services whose endpoint, port or Service is gone (UDP, SCTP; TCP ends by itself)',
    found: 'news of the API server, at once; at the start, once every source is in step',
    withinMs: SWEPT_MS,
    repaired: 'forgotten, more than 30 % of them ten seconds later',
    said: 'problem `held` while they wait; `service_stale_connections_total`',
    alerts: ['SeineProblem'],
    tests: ['e2e/agent-away', 'e2e/service-endpoints'],
    titles: [
      'are led away from an endpoint that is gone',
      'are no longer served by a Service that is gone',
      'are no longer served at a port that is gone',
    ],
  },
  'packet filter': {
    state: 'Tables of nftables: chains, rules, sets, and each element',
    found: 'nftables events of the kernel, at once; sweep',
    withinMs: ANNOUNCED_MS,
    repaired: 'the table is written anew in one transaction, or the element alone',
    said: part('firewall'),
    alerts: repairable,
    tests: ['e2e/drift-firewall'],
  },
} as const satisfies Readonly<Record<string, HeldState>>;

export type HeldStateId = keyof typeof heldStates;
