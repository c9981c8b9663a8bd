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
const meshBuckets = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const lagBuckets = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

/** Names without the prefix `seine_agent_`. If Antrea has the metric, it has Antrea's name after the prefix. */
export const metricRows = {
  info: { type: 'gauge', help: 'Always 1; the labels have the running versions.', labels: ['seine', 'node', 'ovs', 'data_path'] },
  ready: { type: 'gauge', help: '1 if the agent serves pods.' },
  node_warnings: { type: 'gauge', help: 'Number of warnings about the node itself in `seinectl status`.' },
  problems: { type: 'gauge', help: 'Number of problems in `seinectl status`, by kind.', labels: ['kind'] },
  health_check_age_seconds: {
    type: 'gauge',
    help: 'Time since the last finished periodic check began; since the agent started, if there was none.',
    labels: ['check'],
  },
  health_check_deadline_seconds: {
    type: 'gauge',
    help: 'Age above which a periodic check is overdue.',
    labels: ['check'],
  },
  health_check_duration_seconds: {
    type: 'gauge',
    help: 'Duration of the last periodic check.',
    labels: ['check'],
  },
  health_check_repairs_total: {
    type: 'counter',
    help: 'Repairs made by periodic checks.',
    labels: ['check'],
  },
  repair_paused_seconds: { type: 'gauge', help: 'Remaining time for which repair of foreign changes is paused; 0 if it is not.' },

  cni_calls_total: { type: 'counter', help: 'Calls of the CNI plugin, by command and CNI code (0: success).', labels: ['command', 'code'] },
  cni_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of calls of the CNI plugin in the agent.',
    labels: ['command'],
    buckets: callBuckets,
  },
  cni_stage_duration_seconds: {
    type: 'histogram',
    help: 'Duration of the stages of ADD and DEL: ready, turn, addresses, wiring; and within the wiring of ADD: flows, interface, port, announce.',
    labels: ['command', 'stage'],
    buckets: stageBuckets,
  },

  ovsdb_connected: { type: 'gauge', help: '1 if OVSDB is connected and its copy is up to date.' },
  ovsdb_connects_total: { type: 'counter', help: 'Times the copy of OVSDB was brought up to date by a new connection.' },
  ovsdb_transactions_total: { type: 'counter', help: 'Transactions sent to OVSDB.' },
  openflow_connected: {
    type: 'gauge',
    help: '1 if the OpenFlow connection is up: flows (programming) or packets (packet-ins).',
    labels: ['connection'],
  },
  openflow_connects_total: { type: 'counter', help: 'Times the OpenFlow connection was established.', labels: ['connection'] },
  ovs_flow_ops_count: { type: 'counter', help: 'Changes sent to the bridge, by kind: flow, group, meter.', labels: ['kind'] },
  ovs_bundles_total: { type: 'counter', help: 'Atomic bundles of changes sent to the bridge.' },
  ovs_flow_ops_error_count: { type: 'counter', help: 'Bundles that the bridge refused.' },
  ovs_total_flow_count: { type: 'gauge', help: 'Flows, groups and meters on the bridge, as far as the agent knows.' },
  ovs_flow_count: { type: 'gauge', help: 'Desired flows, by table.', labels: ['table'] },

  reconcile_rounds_total: { type: 'counter', help: 'Rounds that changed something, by target.', labels: ['part'] },
  reconcile_duration_seconds: {
    type: 'histogram',
    help: 'Duration of these rounds.',
    labels: ['part'],
    buckets: roundBuckets,
  },
  reconcile_entries_total: { type: 'counter', help: 'Entries that were written or removed.', labels: ['part', 'operation'] },
  reconcile_failures_total: { type: 'counter', help: 'Rounds that failed and were retried.', labels: ['part'] },
  firewall_replacements_total: {
    type: 'counter',
    help: 'Tables of nftables replaced with their sets, because nft refused to replace rules alone.',
    labels: ['table'],
  },
  drift_entries_total: {
    type: 'counter',
    help: 'Entries repaired after a foreign change or, on the bridge, after a restart of Open vSwitch.',
    labels: ['part'],
  },
  drift_repair_duration_seconds: {
    type: 'histogram',
    help: 'Time from the notification of a possible foreign change to its repair, if there was one.',
    labels: ['part'],
    buckets: roundBuckets,
  },
  desired_entries: { type: 'gauge', help: 'Desired entries.', labels: ['part'] },
  reconcile_age_seconds: {
    type: 'gauge',
    help: 'Time since a target was last known to be in sync: a successful round, or an observation without differences.',
    labels: ['part'],
  },
  unrealized_revisions: { type: 'gauge', help: 'Revisions of the desired state that the node is not yet known to have.', labels: ['part'] },
  refused_owners: { type: 'gauge', help: 'Owners whose entries are currently refused.', labels: ['part'] },
  contested_entries: { type: 'gauge', help: 'Entries that another program keeps changing.', labels: ['part'] },

  ip_addresses: { type: 'gauge', help: 'Addresses of the pod CIDR, by state: allocated, quarantined, free.', labels: ['cidr', 'state'] },
  ipam_journal_failed: { type: 'gauge', help: '1 if no address can be allocated because the journal cannot be written.' },
  recorded_deletions: { type: 'gauge', help: 'DELs that the plugin has recorded and the agent has not executed yet.' },
  standing_ports: { type: 'gauge', help: 'Pre-plugged ports: free, used by a pod, or coming (being created).', labels: ['state'] },
  standing_port_fallbacks_total: {
    type: 'counter',
    help: 'Pods that got a veth pair although pre-plugged ports are configured: noneFree, noNamespace (the plugin has not created it), notPinned (it is no longer mounted), noMacvlan (not supported by the kernel), otherBandwidth (another plugin of the chain limits the pod).',
    labels: ['reason'],
  },
  local_pod_count: { type: 'gauge', help: 'Pods attached on this node.' },
  orphaned_pods: {
    type: 'gauge',
    help: 'Pods with addresses on this node that the API server does not have: kept while any part of them exists, or their DEL is expected.',
  },
  orphaned_pods_released_total: {
    type: 'counter',
    help: 'Orphaned pods without a DEL whose addresses were released.',
  },
  peer_count: { type: 'gauge', help: 'Other known nodes.' },
  service_count: { type: 'gauge', help: 'Services served on this node.' },
  service_affinity_clients: { type: 'gauge', help: 'Clients that the bridge remembers for session affinity, of all Service ports.' },
  service_affinity_full_ports: {
    type: 'gauge',
    help: 'Service ports that remember the maximum number of clients (10,000); further clients are balanced without session affinity.',
  },
  networkpolicy_count: { type: 'gauge', help: 'NetworkPolicies of the cluster.' },
  policy_isolated_pods: { type: 'gauge', help: 'Pods of this node that policies isolate.' },
  policy_closed_pods: { type: 'gauge', help: 'Pods of this node that are blocked because their policies are not known.' },
  policy_suspensions: { type: 'gauge', help: 'Current suspensions of policies, each of a pod, a namespace or this node.' },

  policy_mode: { type: 'gauge', help: '1 for the policy mode of this node: enforce, audit, off.', labels: ['mode'] },
  policy_faulty_count: { type: 'gauge', help: 'NetworkPolicies of the cluster with a part that cannot be used, and allows nothing.' },
  policy_programming_duration_seconds: {
    type: 'histogram',
    help: 'Time from the notification of a change that affects policies to the acknowledgement of all resulting changes by OVS.',
    buckets: programmingBuckets,
  },
  drops_total: {
    type: 'counter',
    help: 'Packets that ended on the bridge, by reason (docs/reference/drops.md), without those to Services that have no endpoint. Read from OVS at most every 15 s.',
    labels: ['reason'],
  },
  flow_log_enabled: { type: 'gauge', help: '1 if the flow log of this node is on.' },
  flows_total: {
    type: 'counter',
    help: 'Connections that the flow log has recorded since it was turned on.',
    labels: ['event', 'verdict'],
  },
  flows_by_namespace_total: {
    type: 'counter',
    help: 'Connections that the flow log has recorded since it was turned on, by namespace of either end; only with flowLog.namespaceMetrics. At most 100 series and (other).',
    labels: ['namespace', 'verdict'],
  },
  flow_export_total: {
    type: 'counter',
    help: 'Records and summaries of the flow log for receivers outside the node: sent, without room because the receiver is slow or down (full), rejected by it (refused), not sent before the end (unsent).',
    labels: ['exporter', 'outcome'],
  },
  flows_lost_total: {
    type: 'counter',
    help: 'Connections, or packets of denied ones, without a record: beyond the rate of their pod (meter, denied) or of the node (rate), not passed on by Open vSwitch (queue), recorded without a name (names); and ends of connections without a record (ends, kernel).',
    labels: ['cause'],
  },
  policy_packets_total: {
    type: 'counter',
    help: 'Packets of the opening direction that policies on this node have decided about; in audit mode, denied ones pass. Read from OVS at most every 15 s.',
    labels: ['direction', 'verdict'],
  },
  policy_rule_packets_total: {
    type: 'counter',
    help: 'Like policy_packets_total, by rule, or by the isolating policies if no rule allows (policy.ruleMetrics); at most a thousand rules.',
    labels: ['direction', 'verdict', 'by'],
  },
  policy_rule_packets_left_out: { type: 'gauge', help: 'Rules beyond the limit of policy_rule_packets_total, which have no series.' },
  policy_refusals_total: {
    type: 'counter',
    help: 'Denied packets whose sender may get an answer: answered; without one because they were above the rate of the meters of Open vSwitch, beyond the rate of the agent, from or to a pod that is not known for long, no longer denied, or not opening a connection.',
    labels: ['result'],
  },
  policy_log_packets_total: {
    type: 'counter',
    help: 'Denied packets of pods with logging: with a line, equal to one with a line, above the rate of lines, above the rate of the meters.',
    labels: ['outcome'],
  },

  source_synced: { type: 'gauge', help: '1 if the API server has confirmed this resource since the agent started.', labels: ['kind'] },
  source_up_to_date: {
    type: 'gauge',
    help: '1 if the copy of a resource has the current state of the API server, and it is followed.',
    labels: ['kind'],
  },
  source_objects: { type: 'gauge', help: 'Known objects of a resource.', labels: ['kind'] },
  source_held: { type: 'gauge', help: '1 if removals wait for a second list because the first lacked too many objects.', labels: ['kind'] },
  source_watch_age_seconds: {
    type: 'gauge',
    help: 'Age of the current watch of a resource; 0 if there is none.',
    labels: ['kind'],
  },
  source_silence_seconds: {
    type: 'gauge',
    help: 'Time since the API server last sent anything for a resource. It does so about every minute even without changes.',
    labels: ['kind'],
  },
  source_failures_total: { type: 'counter', help: 'Failed attempts to list or watch a resource.', labels: ['kind'] },
  rejected_objects: {
    type: 'gauge',
    help: 'Objects that are not served, or only in part, because a node must not do what they specify.',
    labels: ['kind'],
  },

  service_rejects_total: {
    type: 'counter',
    help: 'Connections to Services without endpoints: answered with a refusal, or suppressed by the rate limit.',
    labels: ['outcome'],
  },
  half_open_connections_total: {
    type: 'counter',
    help: 'Connections of which one end was lost and whose client sent again: deleted from conntrack, or suppressed by the rate limit (userspace data path only).',
    labels: ['outcome'],
  },
  time_exceeded_total: {
    type: 'counter',
    help: 'Packets whose TTL or hop limit ended on this node: answered with ICMP time exceeded, or suppressed by the rate limit of the agent. Open vSwitch limits each share of senders before.',
    labels: ['outcome'],
  },
  service_programming_duration_seconds: {
    type: 'histogram',
    help: 'Time from the notification of a change of a Service to its acknowledgement by OVS.',
    buckets: programmingBuckets,
  },
  network_programming_duration_seconds: {
    type: 'histogram',
    help: 'Time from the change recorded by the endpoint slice controller to its acknowledgement by OVS (a Kubernetes SLI).',
    buckets: programmingBuckets,
  },
  service_stale_connections_total: {
    type: 'counter',
    help: 'Stale connections: requests to the bridge to delete some, deleted entries of the node, failures (retried), and requests merged because too many waited.',
    labels: ['where'],
  },

  conntrack_entries: {
    type: 'gauge',
    help: 'Tracked connections of both families, by table: kernel (the node’s, and on the kernel data path the pods’), userspace (the pods’ on the userspace data path).',
    labels: ['table'],
  },
  conntrack_limit: { type: 'gauge', help: 'Maximum number of connections of a table; more are dropped.', labels: ['table'] },
  datapath_hits_total: {
    type: 'counter',
    help: 'Packets that matched a megaflow (kernel data path only).',
    labels: ['data_path'],
  },
  datapath_upcalls_missed_total: {
    type: 'counter',
    help: 'Packets sent to ovs-vswitchd because no megaflow matched (kernel data path only).',
    labels: ['data_path'],
  },
  datapath_upcalls_lost_total: {
    type: 'counter',
    help: 'Packets dropped because ovs-vswitchd could not accept or process them.',
    labels: ['data_path'],
  },
  datapath_fragments_lost_total: {
    type: 'counter',
    help: 'IP fragments dropped because their datagrams were not complete in time, among them all datagrams of more than 32 fragments; counted when OVS drops them (userspace data path only).',
    labels: ['data_path'],
  },
  datapath_megaflows: { type: 'gauge', help: 'Megaflows of the data path (kernel data path only).', labels: ['data_path'] },
  datapath_masks: {
    type: 'gauge',
    help: 'Masks of the megaflows, the maximum number of lookups for a packet (kernel data path only).',
    labels: ['data_path'],
  },

  unknown_tunnel_peer_packets: {
    type: 'gauge',
    help: 'Tunnel packets from an address that is not a node, while OVS remembers it.',
    labels: ['address'],
  },

  peer_modes: {
    type: 'gauge',
    help: 'Peers by the way in which this node sends to their pods: tunnel, direct, wireguard, or blocked.',
    labels: ['mode', 'family'],
  },

  mesh_rtt_seconds: {
    type: 'histogram',
    help: 'Round trip of echoes between the gateways of this node and others.',
    buckets: meshBuckets,
  },

  mesh_peers: {
    type: 'gauge',
    help: 'Nodes that this one observes with echoes, by state: reached, slow, lost, mtu (long packets are lost), unknown.',
    labels: ['state'],
  },

  mesh_lost_total: { type: 'counter', help: 'Echoes to other nodes without an answer.' },

  history_recording: { type: 'gauge', help: '1 if the history of this node is recorded, 0 if that fails; none with history.size 0.' },

  history_records_total: {
    type: 'counter',
    help: 'Records of the history that this agent has written, by stream: events, and inputs of compilers.',
    labels: ['stream'],
  },

  history_lost_total: { type: 'counter', help: 'Events that were not recorded, because the disk is full or too slow.' },

  history_bytes: { type: 'gauge', help: 'Size of the history on disk, by stream; history.size limits both together.', labels: ['stream'] },

  history_oldest_seconds: { type: 'gauge', help: 'Unix time of the oldest record of the history, by stream.', labels: ['stream'] },

  plain_drops_total: {
    type: 'counter',
    help: 'Packets with an address of a pod or gateway that reached the node without a tunnel, and were dropped, since the table `seine` was written.',
    labels: ['family'],
  },

  cleartext_drops_total: {
    type: 'counter',
    help: 'Packets of pods that would have left or arrived without encryption, and were dropped, since the table `seine-clear` was written.',
    labels: ['family'],
  },

  wireguard_peers: {
    type: 'gauge',
    help: 'Peers of the WireGuard device by their last handshake: recent, stale (more than 180 s ago), or none. With packets to send, there is one every two minutes.',
    labels: ['handshake'],
  },

  wireguard_handshake_age_seconds: { type: 'gauge', help: 'Age of the oldest last handshake of a WireGuard peer.' },

  wireguard_rx_bytes_total: { type: 'counter', help: 'Bytes received from WireGuard peers since the agent started reading them.' },

  wireguard_tx_bytes_total: { type: 'counter', help: 'Bytes sent to WireGuard peers since the agent started reading them.' },

  sctp_unlearned_packets_total: {
    type: 'counter',
    help: 'Packets of SCTP associations that were admitted but not learned, because the share of the sender is full (userspace data path only).',
  },

  event_loop_lag_seconds: {
    type: 'histogram',
    help: 'Delay of due work in the agent, sampled ten times a second.',
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
  process_start_time_seconds: { type: 'gauge', help: 'Start time of the agent, in seconds since the epoch.' },
  nodejs_heap_size_used_bytes: { type: 'gauge', help: "Used part of the JavaScript engine's heap." },
} as const satisfies Readonly<Record<string, MetricRow>>;

export type ProcessMetricName = keyof typeof processRows;
