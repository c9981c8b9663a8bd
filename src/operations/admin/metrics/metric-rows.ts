/** Metric of `/metrics`. The exporter, the documentation and the tests read the same rows. */
export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels?: readonly string[];
  /** Upper bounds, in the metric's unit. */
  readonly buckets?: readonly number[];
}

const callBuckets = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];
const stageBuckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2, 10];
const roundBuckets = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5];
const programmingBuckets = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300];
const lagBuckets = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

/** Names without the prefix `seine_agent_`. If Antrea has the metric, it has Antrea's name after the prefix. */
export const metricRows = {
  info: { type: 'gauge', help: 'Always 1; the labels say which versions run.', labels: ['seine', 'node', 'ovs', 'data_path'] },
  ready: { type: 'gauge', help: '1 if pods are served.' },
  node_warnings: { type: 'gauge', help: 'What is wrong with the node itself, as `seinectl status` says it, in sentences.' },
  problems: { type: 'gauge', help: 'What is wrong, as `seinectl status` says it, by kind.', labels: ['kind'] },
  look_age_seconds: {
    type: 'gauge',
    help: 'Since the last finished look at everything of one kind began; since the agent began, if there was none.',
    labels: ['look'],
  },
  look_round_seconds: { type: 'gauge', help: 'The age from which such a look is overdue.', labels: ['look'] },
  look_duration_seconds: { type: 'gauge', help: 'How long the last such look took.', labels: ['look'] },
  look_repairs_total: { type: 'counter', help: 'What looks beside the parts of the node have put right.', labels: ['look'] },
  repair_paused_seconds: { type: 'gauge', help: 'How long repair of foreign changes is paused still; 0 if it is not.' },

  cni_calls_total: { type: 'counter', help: 'Calls of the CNI plugin, by command and CNI code (0: success).', labels: ['command', 'code'] },
  cni_call_duration_seconds: {
    type: 'histogram',
    help: 'How long a call of the plugin took in the agent.',
    labels: ['command'],
    buckets: callBuckets,
  },
  cni_stage_duration_seconds: {
    type: 'histogram',
    help: 'Where the time of ADD and DEL goes: ready, turn, addresses, wiring; and within the wiring of ADD: flows, interface, port, announce.',
    labels: ['command', 'stage'],
    buckets: stageBuckets,
  },

  ovsdb_connected: { type: 'gauge', help: '1 if the switch database is connected and its copy is up to date.' },
  ovsdb_connects_total: { type: 'counter', help: 'Times the copy of the switch database was brought up to date by a new connection.' },
  ovsdb_transactions_total: { type: 'counter', help: 'Transactions sent to the switch database.' },
  openflow_connected: {
    type: 'gauge',
    help: '1 if the OpenFlow connection is up: flows (programming) or packets (packet-ins).',
    labels: ['connection'],
  },
  openflow_connects_total: { type: 'counter', help: 'Times the OpenFlow connection came up.', labels: ['connection'] },
  ovs_flow_ops_count: { type: 'counter', help: 'Changes sent to the bridge, by kind: flow, group, meter.', labels: ['kind'] },
  ovs_bundles_total: { type: 'counter', help: 'Atomic bundles of changes sent to the bridge.' },
  ovs_flow_ops_error_count: { type: 'counter', help: 'Bundles that the bridge refused.' },
  ovs_total_flow_count: { type: 'gauge', help: 'Flows, groups and meters that the bridge holds, as far as the agent knows.' },
  ovs_flow_count: { type: 'gauge', help: 'Flows that are wanted, by table.', labels: ['table'] },

  reconcile_rounds_total: { type: 'counter', help: 'Rounds that changed something, by part of the node.', labels: ['part'] },
  reconcile_duration_seconds: {
    type: 'histogram',
    help: 'How long such a round took.',
    labels: ['part'],
    buckets: roundBuckets,
  },
  reconcile_entries_total: { type: 'counter', help: 'Entries that were put or removed.', labels: ['part', 'operation'] },
  reconcile_failures_total: { type: 'counter', help: 'Rounds that failed and were retried.', labels: ['part'] },
  drift_entries_total: {
    type: 'counter',
    help: 'Entries repaired after a foreign change or, on the bridge, after a restart of Open vSwitch.',
    labels: ['part'],
  },
  drift_repair_duration_seconds: {
    type: 'histogram',
    help: 'From the notification of a possible foreign change to its repair, where there was one.',
    labels: ['part'],
    buckets: roundBuckets,
  },
  wanted_entries: { type: 'gauge', help: 'Entries that are wanted.', labels: ['part'] },
  reconcile_age_seconds: {
    type: 'gauge',
    help: 'Since a part was last known to be as wanted: a round that succeeded, or a look that found nothing to do.',
    labels: ['part'],
  },
  unrealized_revisions: { type: 'gauge', help: 'Revisions of the wanted state that the node is not yet known to hold.', labels: ['part'] },
  refused_owners: { type: 'gauge', help: 'Owners whose entries are refused at present.', labels: ['part'] },
  contested_entries: { type: 'gauge', help: 'Entries that another program keeps changing.', labels: ['part'] },

  ip_addresses: { type: 'gauge', help: 'Addresses of the pod CIDR, by state: allocated, quarantined, free.', labels: ['cidr', 'state'] },
  ipam_journal_failed: { type: 'gauge', help: '1 if no address can be allocated because the journal cannot be written.' },
  recorded_deletions: { type: 'gauge', help: 'DELs that the plugin has recorded and the agent has not done yet.' },
  standing_ports: { type: 'gauge', help: 'Standing ports: free, used by a pod, or coming (being made).', labels: ['state'] },
  standing_port_fallbacks_total: {
    type: 'counter',
    help: 'Pods that got a veth pair although standing ports are wanted: noneFree, noNamespace (the plugin has not made it), notPinned (its mount is gone), noMacvlan (the kernel has none), otherBandwidth (another plugin of the chain limits the pod).',
    labels: ['reason'],
  },
  local_pod_count: { type: 'gauge', help: 'Pods attached on this node.' },
  gone_pods: {
    type: 'gauge',
    help: 'Pods with addresses here that the API server does not have: kept as long as something of them is left, or their DEL is waited for.',
  },
  gone_pods_released_total: { type: 'counter', help: 'Pods that were gone and whose DEL never came: their addresses were given up.' },
  peer_count: { type: 'gauge', help: 'Other nodes known.' },
  service_count: { type: 'gauge', help: 'Services served on this node.' },
  networkpolicy_count: { type: 'gauge', help: 'NetworkPolicies of the cluster.' },
  policy_isolated_pods: { type: 'gauge', help: 'Pods of this node that policies isolate.' },
  policy_closed_pods: { type: 'gauge', help: 'Pods of this node that are closed because it is not known what policies say of them.' },
  policy_suspensions: { type: 'gauge', help: 'Suspensions of policies, each of a pod, a namespace or this node, until they end.' },

  policy_mode: { type: 'gauge', help: '1 for the policy mode of this node: enforce, audit, off.', labels: ['mode'] },
  policy_faulty_count: { type: 'gauge', help: 'NetworkPolicies of the cluster of which something cannot be used, and allows nothing.' },
  policy_programming_duration_seconds: {
    type: 'histogram',
    help: 'From the news of a change that policies look at to the switch’s acknowledgement of all that it changes.',
    buckets: programmingBuckets,
  },
  policy_packets_total: {
    type: 'counter',
    help: 'Packets of the opening direction that policies have decided about on this node; under audit, denied ones pass. Read from the switch at most every 15 s.',
    labels: ['direction', 'verdict'],
  },
  policy_rule_packets_total: {
    type: 'counter',
    help: 'The same by rule, and where no rule allows by the policies that isolate (policy.ruleMetrics); a thousand rules at most.',
    labels: ['direction', 'verdict', 'by'],
  },
  policy_rule_packets_left_out: { type: 'gauge', help: 'Rules beyond those of policy_rule_packets_total, which have no series.' },
  policy_log_packets_total: {
    type: 'counter',
    help: 'Denied packets of pods whose denials are logged: with a line, like one that has a line, beyond the rate of lines, beyond the switch’s meters.',
    labels: ['outcome'],
  },

  source_synced: { type: 'gauge', help: '1 if the API server has confirmed this resource since the agent began.', labels: ['kind'] },
  source_in_step: {
    type: 'gauge',
    help: '1 if what is known of a resource is what the API server last said, and it is followed.',
    labels: ['kind'],
  },
  source_objects: { type: 'gauge', help: 'Objects known of a resource.', labels: ['kind'] },
  source_held: { type: 'gauge', help: '1 if removals wait for a second list because the first lacked too many objects.', labels: ['kind'] },
  source_watch_age_seconds: {
    type: 'gauge',
    help: 'How long the present watch of a resource has lived; 0 if there is none.',
    labels: ['kind'],
  },
  source_silence_seconds: {
    type: 'gauge',
    help: 'Since the API server last said anything of a resource. It does so about every minute even if nothing changes.',
    labels: ['kind'],
  },
  source_failures_total: { type: 'counter', help: 'Failed attempts to list or watch a resource.', labels: ['kind'] },
  objected_objects: {
    type: 'gauge',
    help: 'Objects that are served in part or not at all, because they claim what they cannot have.',
    labels: ['kind'],
  },

  service_rejects_total: {
    type: 'counter',
    help: 'Connections to Services without endpoints: answered with a refusal, or suppressed by the rate limit.',
    labels: ['outcome'],
  },
  half_open_connections_total: {
    type: 'counter',
    help: 'Connections whose end was lost and whose client came again: forgotten by the tracker, or suppressed by the rate limit (userspace data path only).',
    labels: ['outcome'],
  },
  time_exceeded_total: {
    type: 'counter',
    help: 'Packets whose TTL or hop limit ended on this node: answered with ICMP time exceeded, or suppressed by the rate limit of the agent. Open vSwitch limits each share of senders before.',
    labels: ['outcome'],
  },
  service_programming_duration_seconds: {
    type: 'histogram',
    help: 'From the news of a change of a Service to the switch’s acknowledgement.',
    buckets: programmingBuckets,
  },
  network_programming_duration_seconds: {
    type: 'histogram',
    help: 'From the change that the endpoint slice controller noted to the switch’s acknowledgement (a Kubernetes SLI).',
    buckets: programmingBuckets,
  },
  service_stale_connections_total: {
    type: 'counter',
    help: 'Connections that led nowhere: requests to the bridge to forget some, entries forgotten of the node’s own, failures (tried again), and requests merged because too many waited.',
    labels: ['where'],
  },

  conntrack_entries: {
    type: 'gauge',
    help: 'Tracked connections of both families, by table: kernel (the node’s, and on the kernel’s data path the pods’), userspace (the pods’ on the userspace data path).',
    labels: ['table'],
  },
  conntrack_limit: { type: 'gauge', help: 'How many connections such a table takes; more are dropped.', labels: ['table'] },
  datapath_hits_total: {
    type: 'counter',
    help: 'Packets that the data path had a megaflow for (kernel’s data path only).',
    labels: ['data_path'],
  },
  datapath_upcalls_missed_total: {
    type: 'counter',
    help: 'Packets that went to ovs-vswitchd because there was no megaflow (kernel’s data path only).',
    labels: ['data_path'],
  },
  datapath_upcalls_lost_total: {
    type: 'counter',
    help: 'Packets dropped because ovs-vswitchd could not take them or decide about them.',
    labels: ['data_path'],
  },
  datapath_fragments_lost_total: {
    type: 'counter',
    help: 'IP fragments dropped because their datagrams were not complete in time, among them all datagrams of more than 32 fragments; counted when OVS drops them (userspace data path only).',
    labels: ['data_path'],
  },
  datapath_megaflows: { type: 'gauge', help: 'Megaflows of the data path (kernel’s data path only).', labels: ['data_path'] },
  datapath_masks: {
    type: 'gauge',
    help: 'Kinds of match among the megaflows: look-ups for a packet, at most (kernel’s data path only).',
    labels: ['data_path'],
  },

  unknown_tunnel_peer_packets: {
    type: 'gauge',
    help: 'Tunnel packets from an address that is no node, while the switch remembers it.',
    labels: ['address'],
  },

  sctp_unlearned_packets_total: {
    type: 'counter',
    help: 'Packets of SCTP associations that were let in and not learned, because the sender has used up its share (userspace data path only).',
  },

  event_loop_lag_seconds: {
    type: 'histogram',
    help: 'How late the agent gets to what is due, sampled ten times a second.',
    buckets: lagBuckets,
  },
} as const satisfies Readonly<Record<string, MetricRow>>;

type MetricName = keyof typeof metricRows;
export type HistogramName = { [N in MetricName]: (typeof metricRows)[N]['type'] extends 'histogram' ? N : never }[MetricName];
/** Metrics that are read from the agent at each scrape. */
export type ScrapedName = Exclude<MetricName, HistogramName>;

export const METRIC_PREFIX = 'seine_agent_';

/** Metrics of the process, under the names that every exporter uses. */
export const processRows = {
  process_cpu_seconds_total: { type: 'counter', help: 'User and system time of the agent.' },
  process_resident_memory_bytes: { type: 'gauge', help: 'Memory of the agent that is in RAM.' },
  process_open_fds: { type: 'gauge', help: 'Open file descriptors.' },
  process_start_time_seconds: { type: 'gauge', help: 'When the agent began, in seconds since the epoch.' },
  nodejs_heap_size_used_bytes: { type: 'gauge', help: "Used part of the JavaScript engine's heap." },
} as const satisfies Readonly<Record<string, MetricRow>>;

export type ProcessMetricName = keyof typeof processRows;
