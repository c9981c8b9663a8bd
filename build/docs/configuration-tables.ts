import { configKeys, parseConfig, settingsSchema } from '../../src/agent/config/agent-config.ts';
import { switches } from '../../src/agent/config/feature-keys.ts';

interface KeyText {
  readonly meaning: string;
  /** Text for a default that is not one value. */
  readonly standard?: string;
  /** Values that the schema does not list. */
  readonly values?: string;
}

type Groups = Readonly<Record<string, Readonly<Record<string, KeyText | string>>>>;

const range = 'CIDR';
const ranges = 'list of CIDRs';
const path = 'absolute path';
const endpoint = '`ADDRESS:PORT`, or empty for none';

/** Meaning of every key of the agent's configuration, by the table of `docs/configuration.md` that has it. */
const groups: Groups = {
  node: {
    nodeName: { meaning: 'name of the Node object', standard: '`$NODE_NAME`, else the host name', values: 'name' },
    kubeconfig: { meaning: 'kubeconfig of an agent that is not a pod', standard: 'the service account', values: path },
    kubeAPIServerOverride: {
      meaning: 'API server, [required without kube-proxy](installation/manifest.md#address-of-the-api-server)',
      standard: 'the kubeconfig’s',
      values: 'URL',
    },
  },
  traffic: {
    trafficEncapMode: {
      meaning:
        '[how pods reach other nodes](traffic-modes.md): through a tunnel, without one, or without one in the node’s subnet; `networkPolicyOnly` is refused as not supported',
      values: '`encap`, `noEncap`, `hybrid`',
    },
    directRoutes: {
      meaning: 'routes to other nodes’ pods; `none`: the network between the nodes has them. Not with `encap`',
      values: '`auto`, `none`',
    },
    'hybrid.directCIDRs': { meaning: 'addresses of nodes that are reached without a tunnel although a router is between', values: ranges },
    'hybrid.verifyDirect': 'pods use a way without a tunnel only while echoes on it are answered',
    trafficEncryptionMode: {
      meaning: '[encryption between nodes](encryption.md); `ipsec` is refused as not supported',
      values: '`none`, `wireGuard`',
    },
    'wireGuard.port': 'UDP port of WireGuard, the same on every node',
    'wireGuard.socketFolder': {
      meaning: 'sockets of processes that serve WireGuard devices, for kernels without the module',
      values: path,
    },
    'wireGuard.unencryptedPeers': {
      meaning: 'packets for nodes without a key: dropped, or sent as without encryption while it is rolled out',
      values: '`drop`, `allow`',
    },
    tunnelType: { meaning: 'tunnel protocol, the same on every node', values: '`geneve`, `vxlan`, `gre`' },
    tunnelPort: 'UDP port of the tunnel; 0: the default of the protocol',
    tunnelCsum: 'checksums in the outer UDP or GRE header',
    transportInterface: {
      meaning: 'interface that carries tunnels',
      standard: 'the one with the node’s address',
      values: 'interface name',
    },
    transportInterfaceCIDRs: { meaning: 'selects that interface, and its address, by network', values: ranges },
    defaultMTU: {
      meaning: 'MTU of pods; 0: that of the transport interface less the tunnel header',
      values: '0, 1280 to 65535',
    },
    disableTXChecksumOffload: 'pods compute checksums; always so on the userspace data path. Applies to new pods',
    noSNAT: 'pods reach external hosts with their own addresses, without masquerade',
  },
  services: {
    serviceCIDR: { meaning: 'IPv4 range of cluster IPs: one route instead of one for each Service', values: range },
    serviceCIDRv6: { meaning: 'IPv6 range of cluster IPs', values: range },
    'proxy.proxyAll': {
      meaning: 'serve everything that kube-proxy serves; `false`: cluster IPs for pods only',
      standard: 'true without a kube-proxy',
    },
    'proxy.nodePortAddresses': {
      meaning: 'addresses for node ports; `primary`: those of the Node object',
      standard: 'all addresses',
      values: 'list of CIDRs and `primary`',
    },
    'proxy.skipServices': { meaning: 'Services left to another proxy', values: 'list of `NAMESPACE/NAME` or cluster IPs, at most 1,000' },
    'proxy.proxyLoadBalancerIPs': '`false`: packets to load balancer IPs go to the load balancer',
    'proxy.serviceProxyName': {
      meaning:
        'value of the label `service.kubernetes.io/service-proxy-name` of Services that Seine serves; empty: Services without the label',
      values: 'label value',
    },
    'proxy.externalIPRanges': {
      meaning: '`spec.externalIPs` outside these networks are refused. Without it, all are',
      values: ranges,
    },
    'proxy.bucketTranslation': 'OpenFlow groups translate addresses where they can; `false`: one flow for each endpoint',
    'proxy.disableServiceHealthCheckServer': '`true`: `healthCheckNodePort` is not served',
    'proxy.healthzBindAddress': {
      meaning: 'address of the [health check](services.md#health-checks-for-load-balancers) of the Service proxy',
      values: endpoint,
    },
    'proxy.forgetTCPConnections': '`true`: TCP connections to a removed endpoint end',
  },
  policy: {
    'policy.mode': 'policies drop (`enforce`), only count (`audit`), or do nothing (`off`). Quote `"off"` in YAML',
    'policy.denied':
      'pods whose connection is denied get no answer (`drop`), or a [refusal](network-policy.md#refuse-denied-connections) (`reject`)',
    'policy.whenUnknown':
      'new pods before their policies or labels are known: reached by their own node only (`closed`), ADD fails (`refuse`), or unrestricted (`open`)',
    'policy.unknownPeers':
      'rules of [ClusterNetworkPolicies](cluster-network-policy.md#pods-that-are-not-known-yet) that deny or pass pods by labels: deny pods that are not known yet (`closed`), or do not match them (`open`)',
    'policy.logDenied':
      '[log denied packets](network-policy.md#log-denied-traffic) of annotated pods and namespaces, of all pods, or of none',
    'policy.liveConnections': 'established connections that policies deny now end (`cut`) or continue (`keep`)',
    'policy.serviceOpenings': 'new connections a second to Services from a pod that is isolated in egress; excess packets are dropped',
    'policy.directWatchPods': 'number of pods in the cluster above which `seinectl status` warns; nothing else changes',
    'policy.ruleMetrics':
      'export `seine_agent_policy_rule_packets_total`, at most 1,000 series a node. Labels name namespaces and policies',
  },
  flowLog: {
    'flowLog.enabled': 'record connections of pods: [flow log](flow-log.md)',
    'flowLog.openings': 'opened connections a second that a node records, shared equally by its namespaces; further ones are counted',
    'flowLog.sampling': 'of so many connections one is recorded: [sampling](flow-log.md#sampling)',
    'flowLog.records': 'records in memory, of 128 bytes each',
    'flowLog.denied': 'record denied connections of all pods',
    'flowLog.closes':
      'record ends of connections: auto on the kernel data path, always also on the userspace data path, where it costs more',
    'flowLog.namespaceMetrics': 'count connections by namespace in a metric of at most 100 series',
    'flowLog.keep': {
      meaning: 'maximum size of denied, refused and closed connections on disk; 0: none',
      values: 'bytes, or `1MiB` to `4GiB`; 0 for none',
    },
    'flowLog.otlp.endpoint': {
      meaning: '[export](flow-log.md#export) as OTLP logs over HTTP; `/v1/logs` is added to a URL without a path',
      values: 'URL, or empty for none',
    },
    'flowLog.otlp.headersFile': { meaning: 'file with a header `Name: value` a line, read for each batch', standard: 'none', values: path },
    'flowLog.otlp.caFile': {
      meaning: 'certificates (PEM) that may have signed the endpoint’s',
      standard: 'those of Node.js',
      values: path,
    },
    'flowLog.otlp.filter': { meaning: 'what is exported', values: '`summary`, `all`, or [filters](flow-log.md#export)' },
    'flowLog.ipfix.collector': {
      meaning: '[export](flow-log.md#export) by IPFIX',
      standard: 'empty',
      values: '`tcp://`, `udp://` or `tls://` with `HOST:PORT`, or empty for none',
    },
    'flowLog.ipfix.caFile': {
      meaning: 'certificates (PEM) that may have signed the collector’s',
      standard: 'those of Node.js',
      values: path,
    },
    'flowLog.ipfix.filter': { meaning: 'records that are exported', values: '`all`, or [filters](flow-log.md#export)' },
  },
  ovs: {
    ovsDatapathType: { meaning: 'kernel (`system`) or userspace (`netdev`) [data path](data-paths.md)', values: '`system`, `netdev`' },
    ovsBridge: { meaning: 'name of the bridge', values: 'interface name' },
    hostGateway: { meaning: 'the node’s port on the bridge', values: 'interface name' },
    tunnelInterface: { meaning: 'the tunnel’s port on the bridge', values: 'interface name' },
    ovsRunDir: { meaning: 'folder of the sockets of OVS', values: path },
    hostFirewall: '`manage`: accept traffic of pods in [other firewall rules](operations.md#other-packet-filters) of the host',
    hostSettings: 'write required [kernel settings](operations.md#kernel-settings), or only report differences',
    repairPods:
      'restore missing addresses, routes and interface names [inside pods](operations.md#interfaces-of-pods); `false`: report only',
    podInterface:
      '[interface of new pods](operations.md#what-a-pod-gets): pre-plugged port (`standing`), veth pair (`veth`), or a pre-plugged port unless a plugin after Seine limits the pod’s bandwidth (`auto`)',
  },
  agent: {
    cniSocket: { meaning: 'socket for the CNI plugin; equal to the plugin’s `agentSocket`', values: path },
    cniBinDir: { meaning: 'folder of CNI plugins, [checked](operations.md#cni-files) by the agent', values: path },
    cniConfDir: { meaning: 'folder of CNI configuration, checked by the agent', values: path },
    apiSocket: { meaning: 'socket for `seinectl`', values: path },
    stateDir: { meaning: 'folder for leases and the last known objects; equal to the plugin’s `stateDir`', values: path },
    'trace.background': {
      meaning:
        'shortest interval at which the agent compares the flows in Open vSwitch with its own for a random connection ([tracing](tracing.md#in-the-background)); 0: never',
      values: '`1s` to `9999m`, or 0',
    },
    'history.size': {
      meaning: 'size of the recorded [history](history.md); 0: nothing is recorded',
      values: 'bytes, or `1MiB` to `4GiB`; 0 for none',
    },
    'mesh.interval': {
      meaning: 'interval of [echoes](history.md#links-between-nodes) to each observed node, in ms or as `10s`; 0: none',
      values: '0, `1s` to `10m`',
    },
    'mesh.peers': 'number of nodes that are observed all the time, at most 64; 0: none',
    metricsAddress: { meaning: '`/metrics`, `/livez` and `/readyz` over HTTP', values: endpoint },
    metricsTLSAddress: { meaning: '`/metrics` over TLS with a [bearer token](reference/metrics.md#prometheus)', values: endpoint },
    metricsTLSCertFile: { meaning: 'certificate chain for it, PEM', standard: 'self-signed', values: path },
    metricsTLSKeyFile: { meaning: 'private key for it; required with the certificate', standard: 'self-signed', values: path },
    'status.reportPoolExhausted': '[STATUS](cni.md#status) fails when no address is free',
    logLevel: 'log level; `seinectl log-level` changes it without a restart',
  },
};

/** Tables of `docs/configuration.md` by name. @throws Error if a key has no meaning, or more than one */
export function configurationTables(): Readonly<Record<string, string>> {
  const described = Object.values(groups).flatMap((group) => Object.keys(group));
  const wrong = configKeys().filter((key) => described.filter((each) => each === key).length !== 1);
  if (wrong.length > 0) throw new Error(`configuration keys without one meaning: ${wrong.join(', ')}`);
  return Object.fromEntries(Object.entries(groups).map(([name, keys]) => [`${name} keys`, tableOf(keys)]));
}

/** Keys that `seinectl status` prints if they are not the default. */
export function switchesList(): string {
  return `${switches.map((key) => `\`${key}\``).join(', ')}.`;
}

function tableOf(keys: Groups[string]): string {
  const rows = Object.entries(keys).map(([key, text]) => {
    const { meaning, standard, values } = typeof text === 'string' ? { meaning: text } : text;
    return `| \`${key}\` | ${standard ?? defaultOf(key)} | ${values ?? valuesOf(key)} | ${meaning} |`;
  });
  return ['| Key | Default | Values | Meaning |', '|---|---|---|---|', ...rows].join('\n');
}

const defaults = parseConfig('', { NODE_NAME: 'any' });

function defaultOf(key: string): string {
  const value = inside(defaults, key);
  if (typeof value === 'object' || value === undefined) return 'none';
  return value === '' ? 'empty' : `\`${value}\``;
}

function valuesOf(key: string): string {
  const found = inside(settingsSchema().properties, key.replace('.', '.properties.'));
  const { type, enum: choices, minimum, maximum } = (found ?? {}) as SchemaOfValue;
  if (choices !== undefined) return choices.map((each) => `\`${each}\``).join(', ');
  if (type === 'boolean') return '`true`, `false`';
  if (type === 'integer') return maximum === undefined || maximum > 1e9 ? `${minimum} or more` : `${minimum} to ${maximum}`;
  throw new Error(`${key}: the schema does not list values`);
}

interface SchemaOfValue {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

function inside(value: unknown, key: string): unknown {
  return key.split('.').reduce<unknown>((inner, part) => (inner as Readonly<Record<string, unknown>> | undefined)?.[part], value);
}
