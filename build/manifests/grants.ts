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
  why: 'the sockets of Open vSwitch: its database, and the bridge that the agent programs',
};

/** Paths of the two folders in install-cni, whatever they are called on the node. */
export const insideCniBin = '/host/opt/cni/bin';
export const insideCniConf = '/host/etc/cni/net.d';

export const ovsGrants = ({ dataPath }: ManifestOptions): Grants => ({
  capabilities: [
    { name: 'NET_ADMIN', why: 'makes data path, ports and tunnel devices, and reads their state' },
    { name: 'NET_RAW', why: 'packet sockets, by which the userspace data path sends and receives' },
  ],
  paths: [
    { ...ovsRunPath },
    {
      name: 'var-lib-openvswitch',
      path: '/var/lib/openvswitch',
      type: 'DirectoryOrCreate',
      why: 'conf.db, the database of ports and their owners: it must survive a restart of the container and a reboot; and copies of it from before another version converted it',
    },
    ...(dataPath === 'netdev'
      ? [
          {
            name: 'dev-net-tun',
            path: '/dev/net/tun',
            type: 'CharDevice',
            why: 'the userspace data path’s own interfaces are taps',
          } as const,
        ]
      : []),
  ],
});

export const agentGrants = ({ cniBinFolder, cniConfFolder, agent }: ManifestOptions): Grants => ({
  capabilities: [
    { name: 'NET_ADMIN', why: 'interfaces, addresses, routes, neighbours, the nftables table `inet seine`, connection tracking' },
    { name: 'NET_RAW', why: 'the test packets that find a packet filter which drops what pods send' },
    { name: 'SYS_ADMIN', why: 'setns(2): a pod’s interface is born inside the pod’s network namespace. Nothing is mounted' },
    {
      name: 'SYS_PTRACE',
      why: 'runtimes that name a namespace as /proc/PID/ns/net (cri-dockerd, ctr): the kernel refuses it to others',
    },
  ],
  paths: [
    {
      name: 'run-seine',
      path: '/run/seine',
      type: 'DirectoryOrCreate',
      // If /run is not shared, as without systemd, a container with this does not start.
      ...(hasStandingPorts(agent) && { propagation: 'HostToContainer' as const }),
      why: 'cni.sock, which the plugin calls, and agent.sock, which seinectl asks. Unless `podInterface` is `veth`, the plugin mounts the namespace of standing ports there later than the agent starts, hence `HostToContainer`',
    },
    {
      name: 'var-lib-seine',
      path: '/var/lib/seine',
      type: 'DirectoryOrCreate',
      why: 'the journal of addresses, last known peers and Services, DELs that found no agent, and the plugin last known to be good',
    },
    ovsRunPath,
    {
      name: 'run-netns',
      path: '/run/netns',
      type: 'DirectoryOrCreate',
      propagation: 'HostToContainer',
      why: 'network namespaces of pods. The runtime mounts them here later than the agent starts, hence the propagation',
    },
    {
      name: 'proc-sys-net',
      path: '/proc/sys/net',
      inside: '/host/proc/sys/net',
      type: 'Directory',
      why: 'the kernel’s settings of networking: a container’s own /proc/sys is read-only',
    },
    {
      name: 'cni-bin',
      path: cniBinFolder,
      inside: '/opt/cni/bin',
      type: 'DirectoryOrCreate',
      readOnly: true,
      why: 'only looked at, by the agent and seinectl check: is the plugin in place, and the one that was installed?',
    },
    {
      name: 'cni-conf',
      path: cniConfFolder,
      inside: '/etc/cni/net.d',
      type: 'DirectoryOrCreate',
      readOnly: true,
      why: 'only looked at, likewise: is the configuration in place, as installed, and the first by name?',
    },
  ],
});

/** Access of the init container to the node. It needs no capability at all. */
export const installGrants = ({ cniBinFolder, cniConfFolder }: ManifestOptions): Grants => ({
  capabilities: [],
  paths: [
    { name: 'cni-bin', path: cniBinFolder, inside: insideCniBin, type: 'DirectoryOrCreate', why: 'where the runtime looks for plugins' },
    {
      name: 'cni-conf',
      path: cniConfFolder,
      inside: insideCniConf,
      type: 'DirectoryOrCreate',
      why: 'where the runtime looks for their configuration',
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
    why: 'other nodes, their addresses and pod networks; this node’s own',
  },
  {
    rule: { apiGroups: [''], resources: ['pods'], verbs: ['get', ...follow] },
    why: 'the pods of this node: is the pod that the runtime names the one of that UID? All pods, without those of the host network: policies name them by labels',
  },
  { rule: { apiGroups: [''], resources: ['services'], verbs: follow }, why: 'what Services are served' },
  { rule: { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: follow }, why: 'where Services lead' },
  {
    rule: { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: follow },
    why: 'what pods may talk with',
  },
  { rule: { apiGroups: [''], resources: ['namespaces'], verbs: follow }, why: 'policies name namespaces by their labels' },
  {
    rule: { apiGroups: [''], resources: ['configmaps'], resourceNames: [liveSettingsName], verbs: follow },
    why: 'what holds on all nodes and is followed live; no other ConfigMap',
  },
  {
    rule: { apiGroups: [''], resources: ['events'], verbs: ['create'] },
    why: 'tells what is wrong with a node or an object; in whose name: `seine-agent-events`',
  },
  {
    rule: { apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] },
    why: 'the condition NetworkUnavailable of its own node; RBAC cannot say "its own", the admission policy `seine-agent-nodes` does',
  },
];

/** Permissions for metrics over TLS, and only with it: authenticating and authorizing clients. */
export const reviewPermissions: readonly Permission[] = [
  {
    rule: { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    why: 'who asks for metrics; only with `metricsTLSAddress`',
  },
  {
    rule: { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
    why: 'whether he may `get` /metrics; only with `metricsTLSAddress`',
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
