import type { PolicyRule } from 'kubernetes-types/rbac/v1.d.ts';
import type { ManifestOptions } from './options.ts';

/** One path of the node that a container sees. */
export interface HostPath {
  readonly name: string;
  readonly path: string;
  /** Path in the container; the same if omitted. */
  readonly inside?: string;
  readonly type: 'Directory' | 'DirectoryOrCreate' | 'CharDevice';
  readonly readOnly?: true;
  readonly propagation?: 'HostToContainer';
  readonly why: string;
}

export interface Capability {
  readonly name: string;
  readonly why: string;
}

export interface Grants {
  readonly capabilities: readonly Capability[];
  readonly paths: readonly HostPath[];
}

const ovsRunPath: HostPath = {
  name: 'run-openvswitch',
  path: '/run/openvswitch',
  type: 'DirectoryOrCreate',
  why: 'sockets of OVSDB and of the bridge',
};

/** Paths of the two folders in install-cni, whatever they are called on the node. */
export const insideCniBin = '/host/opt/cni/bin';
export const insideCniConf = '/host/etc/cni/net.d';

export const ovsGrants = ({ dataPath }: ManifestOptions): Grants => ({
  capabilities: [
    { name: 'NET_ADMIN', why: 'creates data path, ports and tunnel devices, and reads their state' },
    { name: 'NET_RAW', why: 'packet sockets of the userspace data path' },
  ],
  paths: [
    { ...ovsRunPath },
    {
      name: 'var-lib-openvswitch',
      path: '/var/lib/openvswitch',
      type: 'DirectoryOrCreate',
      why: '`conf.db`, the database of ports and their owners, which must survive a reboot, and copies of it from before conversions',
    },
    ...(dataPath === 'netdev'
      ? [
          {
            name: 'dev-net-tun',
            path: '/dev/net/tun',
            type: 'CharDevice',
            why: 'taps of the userspace data path',
          } as const,
        ]
      : []),
  ],
});

export const agentGrants = ({ cniBinFolder, cniConfFolder, agent }: ManifestOptions): Grants => ({
  capabilities: [
    { name: 'NET_ADMIN', why: 'interfaces, addresses, routes, neighbors, nftables tables, connection tracking' },
    { name: 'NET_RAW', why: 'test packets that detect a firewall that drops packets of pods' },
    { name: 'SYS_ADMIN', why: 'setns(2): interfaces of pods are created in the pod’s network namespace. Nothing is mounted' },
    {
      name: 'SYS_PTRACE',
      why: 'network namespaces that a runtime names /proc/PID/ns/net (cri-dockerd, ctr)',
    },
  ],
  paths: [
    {
      name: 'run-seine',
      path: '/run/seine',
      type: 'DirectoryOrCreate',
      // If /run is not shared, as without systemd, a container with this does not start.
      ...(hasStandingPorts(agent) && { propagation: 'HostToContainer' as const }),
      why: '`cni.sock` of the plugin, `agent.sock` of seinectl, and the namespace of pre-plugged ports, which is mounted after the agent starts',
    },
    {
      name: 'var-lib-seine',
      path: '/var/lib/seine',
      type: 'DirectoryOrCreate',
      why: 'the journal of addresses, last known API objects, recorded DELs, and copies of the CNI files',
    },
    ovsRunPath,
    {
      name: 'run-netns',
      path: '/run/netns',
      type: 'DirectoryOrCreate',
      propagation: 'HostToContainer',
      why: 'network namespaces of pods, which the runtime mounts after the agent starts',
    },
    {
      name: 'proc-sys-net',
      path: '/proc/sys/net',
      inside: '/host/proc/sys/net',
      type: 'Directory',
      why: 'network settings of the kernel; `/proc/sys` of a container is read-only',
    },
    {
      name: 'cni-bin',
      path: cniBinFolder,
      inside: '/opt/cni/bin',
      type: 'DirectoryOrCreate',
      readOnly: true,
      why: 'checks that the plugin is the installed one',
    },
    {
      name: 'cni-conf',
      path: cniConfFolder,
      inside: '/etc/cni/net.d',
      type: 'DirectoryOrCreate',
      readOnly: true,
      why: 'checks that the CNI configuration is the installed one and the first by name',
    },
  ],
});

/** Access of the init container to the node. It needs no capability at all. */
export const installGrants = ({ cniBinFolder, cniConfFolder }: ManifestOptions): Grants => ({
  capabilities: [],
  paths: [
    { name: 'cni-bin', path: cniBinFolder, inside: insideCniBin, type: 'DirectoryOrCreate', why: 'installs the plugin' },
    {
      name: 'cni-conf',
      path: cniConfFolder,
      inside: insideCniConf,
      type: 'DirectoryOrCreate',
      why: 'installs the CNI configuration',
    },
  ],
});

export interface Permission {
  readonly rule: PolicyRule;
  readonly why: string;
}

const follow = ['list', 'watch'];

/** The ConfigMap that agents follow; src/kubernetes/resources/live-settings.ts. */
export const liveSettingsName = 'seine-live';

/** Everything the agent may request from the API server. A test runs agents with these alone, and shows that each is used. */
export const permissions: readonly Permission[] = [
  {
    rule: { apiGroups: [''], resources: ['nodes'], verbs: follow },
    why: 'addresses and pod CIDRs of all nodes',
  },
  {
    rule: { apiGroups: [''], resources: ['pods'], verbs: ['get', ...follow] },
    why: 'identity of pods of this node; labels and addresses of all pods, for policies',
  },
  { rule: { apiGroups: [''], resources: ['services'], verbs: follow }, why: 'Services' },
  { rule: { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: follow }, why: 'endpoints of Services' },
  {
    rule: { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: follow },
    why: 'policies',
  },
  {
    rule: { apiGroups: ['policy.networking.k8s.io'], resources: ['clusternetworkpolicies'], verbs: follow },
    why: 'cluster policies, if the cluster serves them',
  },
  { rule: { apiGroups: [''], resources: ['namespaces'], verbs: follow }, why: 'labels of namespaces, for policies' },
  {
    rule: { apiGroups: [''], resources: ['configmaps'], resourceNames: [liveSettingsName], verbs: follow },
    why: 'the ConfigMap `seine-live` only: settings that apply without a restart',
  },
  {
    rule: { apiGroups: [''], resources: ['events'], verbs: ['create'] },
    why: 'events about this node and API objects; restricted by `seine-agent-events`',
  },
  {
    rule: { apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] },
    why: 'the condition NetworkUnavailable and the announcements of its own node; restricted by `seine-agent-nodes`',
  },
];

/** Permissions for metrics over TLS, and only with it: authenticating and authorizing clients. */
export const reviewPermissions: readonly Permission[] = [
  {
    rule: { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    why: 'authenticates clients of the metrics; only with `metricsTLSAddress`',
  },
  {
    rule: { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
    why: 'authorizes them to `get` /metrics; only with `metricsTLSAddress`',
  },
];

/** Everything that agents with these settings may request from the API server. */
export function permissionsOf({ agent }: ManifestOptions): readonly Permission[] {
  return hasMetricsByTls(agent) ? [...permissions, ...reviewPermissions] : permissions;
}

/** Reports whether pods of the agent may get pre-plugged ports. */
function hasStandingPorts({ podInterface = 'auto' }: ManifestOptions['agent']): boolean {
  return podInterface !== 'veth';
}

export function hasMetricsByTls({ metricsTLSAddress = '' }: ManifestOptions['agent']): boolean {
  return metricsTLSAddress !== '';
}
