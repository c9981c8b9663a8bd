/** A panel: its title, expressions and Grafana unit. */
interface Panel {
  readonly title: string;
  readonly about: string;
  readonly unit?: string;
  readonly queries: Readonly<Record<string, string>>;
}

const node = 'instance=~"$instance"';
const quantile = (q: number, metric: string, matchers = ''): string =>
  `histogram_quantile(${q}, sum by (le) (rate(seine_agent_${metric}_bucket{${node}${matchers}}[$__rate_interval])))`;
const rate = (metric: string, by: string): string => `sum by (${by}) (rate(seine_agent_${metric}{${node}}[$__rate_interval]))`;
const value = (metric: string, matchers = ''): string => `seine_agent_${metric}{${node}${matchers}}`;

/** Rows of the dashboard, most urgent first; the legend of each query is its key. */
const rows: Readonly<Record<string, readonly Panel[]>> = {
  'Is it all right': [
    { title: 'Ready', about: '1 if pods are served.', queries: { '{{instance}}': value('ready') } },
    {
      title: 'Connected',
      about: 'To the switch and its database, and known peers.',
      queries: {
        'flows {{instance}}': value('openflow_connected', ',connection="flows"'),
        'database {{instance}}': value('ovsdb_connected'),
      },
    },
    {
      title: 'Problems',
      about: 'As `seinectl status` says them, by kind.',
      queries: { '{{instance}} {{kind}}': `${value('problems')} > 0` },
    },
    {
      title: 'Age of periodic checks',
      about: 'Age of each periodic check, as a share of its deadline. Above 1 it is overdue.',
      queries: {
        '{{instance}} {{check}}': `${value('health_check_age_seconds')} / ${value('health_check_deadline_seconds')}`,
      },
    },
    {
      title: 'Not yet as wanted',
      about: 'Changes that the node is not known to hold yet. More than a moment is a problem.',
      queries: { '{{instance}} {{part}}': value('unrealized_revisions') },
    },
    {
      title: 'Refused, contested, warned of',
      about: 'Should be 0.',
      queries: {
        'refused {{instance}} {{part}}': value('refused_owners'),
        'contested {{instance}} {{part}}': value('contested_entries'),
        'warnings {{instance}}': value('node_warnings'),
      },
    },
  ],
  Pods: [
    {
      title: 'Calls of the runtime',
      about: 'By command and CNI code; 0 is success.',
      unit: 'ops',
      queries: { '{{command}} {{code}}': rate('cni_calls_total', 'command, code') },
    },
    {
      title: 'How long an ADD takes',
      about: 'In the agent.',
      unit: 's',
      queries: {
        median: quantile(0.5, 'cni_call_duration_seconds', ',command="ADD"'),
        '99 %': quantile(0.99, 'cni_call_duration_seconds', ',command="ADD"'),
      },
    },
    {
      title: 'Where the time of an ADD goes',
      about: '95 % of calls, by stage.',
      unit: 's',
      queries: {
        '{{stage}}': `histogram_quantile(0.95, sum by (le, stage) (rate(seine_agent_cni_stage_duration_seconds_bucket{${node},command="ADD"}[$__rate_interval])))`,
      },
    },
    {
      title: 'Addresses',
      about: 'Of each pod CIDR of IPv4 size.',
      queries: { '{{instance}} {{cidr}} {{state}}': `${value('ip_addresses')} < 1e6` },
    },
    {
      title: 'Pods',
      about: 'Attached, and deleted but not yet removed.',
      queries: { 'attached {{instance}}': value('local_pod_count'), 'to be removed {{instance}}': value('recorded_deletions') },
    },
  ],
  'Switch and data path': [
    {
      title: 'Flows wanted by table',
      about: 'Of the nodes chosen, together.',
      queries: { '{{table}}': `sum by (table) (${value('ovs_flow_count')})` },
    },
    { title: 'Changes sent to the switch', about: 'By kind.', unit: 'ops', queries: { '{{kind}}': rate('ovs_flow_ops_count', 'kind') } },
    {
      title: 'Connection table',
      about: 'How full it is; new connections are dropped when it is full.',
      unit: 'percentunit',
      queries: { '{{instance}} {{table}}': `${value('conntrack_entries')} / ${value('conntrack_limit')}` },
    },
    {
      title: 'First packets',
      about: 'Sent to ovs-vswitchd, and lost on the way.',
      unit: 'pps',
      queries: { missed: rate('datapath_upcalls_missed_total', 'instance'), lost: rate('datapath_upcalls_lost_total', 'instance') },
    },
    {
      title: 'Megaflows and masks',
      about: 'Of the kernel data path.',
      queries: { 'megaflows {{instance}}': value('datapath_megaflows'), 'masks {{instance}}': value('datapath_masks') },
    },
    {
      title: 'Recorded connections',
      about: 'Flow log, where it is on.',
      queries: { '{{event}} {{verdict}}': rate('flows_total', 'event, verdict') },
    },
    {
      title: 'Connections without a record',
      about: 'Beyond the rates of the flow log, or not passed on by Open vSwitch.',
      queries: { '{{instance}} {{cause}}': rate('flows_lost_total', 'instance, cause') },
    },
    {
      title: 'Exported connections',
      about:
        'Records and summaries of the flow log by exporter: sent, and lost because the receiver is down or slow (full), or rejects them (refused).',
      queries: { '{{exporter}} {{outcome}}': rate('flow_export_total', 'exporter, outcome') },
    },
    {
      title: 'History on disk',
      about: 'Size of the recorded events and inputs of a node.',
      unit: 'bytes',
      queries: { '{{instance}} {{stream}}': value('history_bytes') },
    },
    {
      title: 'Age of the history',
      about: 'Of the oldest record: how far back timelines, and traces of a past time, go.',
      unit: 's',
      queries: { '{{instance}} {{stream}}': `time() - ${value('history_oldest_seconds')}` },
    },
    {
      title: 'Recorded and lost events',
      about: 'Records of the history, and events that were not recorded because the disk is full or too slow.',
      queries: {
        '{{instance}} {{stream}}': rate('history_records_total', 'instance, stream'),
        '{{instance}} lost': rate('history_lost_total', 'instance'),
      },
    },
    {
      title: 'Nodes that are not reached as usual',
      about: 'Of those that a node observes with echoes: lost, slow, or mtu (packets of full MTU are lost).',
      queries: { '{{instance}} {{state}}': `${value('mesh_peers', ',state=~"lost|slow|mtu"')} > 0` },
    },
    {
      title: 'Round trip between nodes',
      about: 'Of echoes from gateway to gateway.',
      unit: 's',
      queries: { median: quantile(0.5, 'mesh_rtt_seconds'), '99 %': quantile(0.99, 'mesh_rtt_seconds') },
    },
    {
      title: 'Echoes without an answer',
      about: 'Sent to the gateways of other nodes.',
      unit: 'pps',
      queries: { '{{instance}}': rate('mesh_lost_total', 'instance') },
    },
    {
      title: 'Tunnel packets from unknown peers',
      about: 'From addresses that are no node. They are dropped.',
      queries: { '{{instance}} from {{address}}': value('unknown_tunnel_peer_packets') },
    },
    {
      title: 'Packets with addresses of pods, without a tunnel',
      about: 'From hosts on a link of the node, or past the tunnel by another program. They are dropped.',
      queries: { '{{instance}} {{family}}': rate('plain_drops_total', 'instance, family') },
    },
    {
      title: 'Packets of pods without encryption',
      about: 'With trafficEncryptionMode: wireGuard. They are dropped; a route of another program may send them.',
      queries: { '{{instance}} {{family}}': rate('cleartext_drops_total', 'instance, family') },
    },
    {
      title: 'WireGuard peers without a recent handshake',
      about: 'With packets to send there is a handshake every two minutes. `none`: the UDP port may be blocked.',
      queries: { '{{instance}} {{handshake}}': value('wireguard_peers', ',handshake!="recent"') },
    },
    {
      title: 'WireGuard traffic',
      about: 'With trafficEncryptionMode: wireGuard.',
      unit: 'Bps',
      queries: {
        'received {{instance}}': rate('wireguard_rx_bytes_total', 'instance'),
        'sent {{instance}}': rate('wireguard_tx_bytes_total', 'instance'),
      },
    },
  ],
  'Keeping it so': [
    {
      title: 'Rounds that changed something',
      about: 'By part of the node.',
      unit: 'ops',
      queries: { '{{part}}': rate('reconcile_rounds_total', 'part') },
    },
    {
      title: 'How long a round takes',
      about: '99 %.',
      unit: 's',
      queries: {
        '{{part}}': `histogram_quantile(0.99, sum by (le, part) (rate(seine_agent_reconcile_duration_seconds_bucket{${node}}[$__rate_interval])))`,
      },
    },
    {
      title: 'Rounds that failed',
      about: 'They are tried again.',
      unit: 'ops',
      queries: { '{{part}}': rate('reconcile_failures_total', 'part') },
    },
    {
      title: 'Last seen as wanted',
      about: 'Seconds since.',
      unit: 's',
      queries: { '{{instance}} {{part}}': value('reconcile_age_seconds') },
    },
    {
      title: 'Foreign changes',
      about: 'Entries that were repaired.',
      unit: 'ops',
      queries: { '{{part}}': rate('drift_entries_total', 'part') },
    },
  ],
  Cluster: [
    {
      title: 'Services and nodes',
      about: 'As each node knows them.',
      queries: { 'Services {{instance}}': value('service_count'), 'nodes {{instance}}': value('peer_count') },
    },
    {
      title: 'A change of a Service',
      about: 'From the news to the switch’s acknowledgement.',
      unit: 's',
      queries: {
        median: quantile(0.5, 'service_programming_duration_seconds'),
        '99 %': quantile(0.99, 'service_programming_duration_seconds'),
      },
    },
    {
      title: 'Network programming latency',
      about: 'From the endpoint slice controller’s change (a Kubernetes SLI).',
      unit: 's',
      queries: { '99 %': quantile(0.99, 'network_programming_duration_seconds') },
    },
    {
      title: 'Silence of the API server',
      about: 'Since it last said anything of a resource.',
      unit: 's',
      queries: { '{{instance}} {{kind}}': value('source_silence_seconds') },
    },
    {
      title: 'Failures to list or watch',
      about: 'By resource.',
      unit: 'ops',
      queries: { '{{kind}}': rate('source_failures_total', 'kind') },
    },
    {
      title: 'Connections refused, and half-open ones deleted',
      about: 'To Services without endpoints; and by clients that came again after the end of their connection was lost.',
      unit: 'ops',
      queries: {
        '{{outcome}}': rate('service_rejects_total', 'outcome'),
        'half-open {{outcome}}': rate('half_open_connections_total', 'outcome'),
      },
    },
    {
      title: 'Not fully served',
      about: 'Objects that claim what they cannot have, and pods that are closed because it is not known what policies say of them.',
      queries: {
        '{{instance}} {{kind}}': value('rejected_objects'),
        'closed pods {{instance}}': value('policy_closed_pods'),
        'suspensions of policies {{instance}}': value('policy_suspensions'),
        'faulty policies {{instance}}': value('policy_faulty_count'),
        'policies only audited, or off {{instance}}': value('policy_mode', ',mode!="enforce"'),
      },
    },
    {
      title: 'A change of a policy',
      about: 'From the news of what policies look at to the switch’s acknowledgement.',
      unit: 's',
      queries: {
        median: quantile(0.5, 'policy_programming_duration_seconds'),
        '99 %': quantile(0.99, 'policy_programming_duration_seconds'),
      },
    },
    {
      title: 'What policies decide',
      about: 'Packets of the opening direction, by verdict; under audit denied ones pass.',
      unit: 'pps',
      queries: { '{{direction}} {{verdict}}': rate('policy_packets_total', 'direction, verdict') },
    },
    {
      title: 'Denied packets of pods that are logged',
      about: 'With a line, like one that has a line, beyond the rate of lines, beyond the switch’s meters.',
      unit: 'ops',
      queries: { '{{outcome}}': rate('policy_log_packets_total', 'outcome') },
    },
  ],
  Agent: [
    {
      title: 'Event loop',
      about: 'Delay of timers in the agent’s event loop.',
      unit: 's',
      queries: { '99 %': quantile(0.99, 'event_loop_lag_seconds') },
    },
    {
      title: 'Memory',
      about: 'In RAM.',
      unit: 'bytes',
      queries: { '{{instance}}': `process_resident_memory_bytes{${node},job="seine-agent"}` },
    },
    {
      title: 'Processor',
      about: 'Seconds a second.',
      unit: 'percentunit',
      queries: { '{{instance}}': `rate(process_cpu_seconds_total{${node},job="seine-agent"}[$__rate_interval])` },
    },
    { title: 'File descriptors', about: 'Open ones.', queries: { '{{instance}}': `process_open_fds{${node},job="seine-agent"}` } },
  ],
};

const WIDTH = 24;
const PANEL = { w: 8, h: 8 } as const;
const datasource = { type: 'prometheus', uid: '$datasource' } as const;

/** The dashboard as Grafana imports it: `build/observability/dashboard.json`. */
export function dashboardJson(): string {
  return `${JSON.stringify(dashboard(), undefined, 2)}\n`;
}

function dashboard(): unknown {
  const panels: unknown[] = [];
  let [x, y] = [0, 0];
  for (const [title, inRow] of Object.entries(rows)) {
    if (x > 0) y += PANEL.h;
    x = 0;
    panels.push({ id: panels.length + 1, type: 'row', title, collapsed: false, gridPos: { x, y, w: WIDTH, h: 1 }, panels: [] });
    y += 1;
    for (const panel of inRow) {
      if (x + PANEL.w > WIDTH) [x, y] = [0, y + PANEL.h];
      panels.push(timeSeries(panels.length + 1, panel, { x, y, ...PANEL }));
      x += PANEL.w;
    }
  }
  return {
    title: 'Seine',
    uid: 'seine-agent',
    tags: ['seine', 'kubernetes', 'network'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: variables },
    panels,
  };
}

function timeSeries(id: number, { title, about, unit, queries }: Panel, gridPos: unknown): unknown {
  return {
    id,
    type: 'timeseries',
    title,
    description: about,
    datasource,
    gridPos,
    fieldConfig: { defaults: { ...(unit ? { unit } : {}), min: 0 }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom', showLegend: true }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: Object.entries(queries).map(([legendFormat, expr], at) => ({
      refId: String.fromCharCode(65 + at),
      datasource,
      expr,
      legendFormat,
    })),
  };
}

const variables = [
  { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
  {
    name: 'instance',
    type: 'query',
    label: 'Node',
    datasource,
    query: 'label_values(seine_agent_info, instance)',
    refresh: 2,
    multi: true,
    includeAll: true,
    allValue: '.*',
  },
];
