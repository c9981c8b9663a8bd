/**
 * State of a finding:
 *
 * - `ok`       in order
 * - `warning`  works, but perhaps not for long, or not for all clients
 * - `problem`  packets or pods are lost
 * - `unknown`  could not be checked, or not in time
 */
const findingStates = ['ok', 'warning', 'problem', 'unknown'] as const;
export type FindingState = (typeof findingStates)[number];

/**
 * Subjects of findings, with a description of each check. Names are stable, for scripts; a name without a part after a dot means that the
 * whole subject could not be checked.
 */
export const checkNames = {
  agent: 'whether an agent answers on its socket',
  'agent.ready': 'whether it serves pods',
  'agent.repair': 'whether it repairs foreign changes',
  'agent.problems':
    'the agent’s list of problems, except those that have a finding here; whether all periodic checks are within their deadline',
  ovs: 'without an agent: whether OVSDB answers, and which bridges exist',
  'ovs.connection': 'the agent’s connections to OVSDB and the bridge; whether OVS still waits for its flows',
  'ovs.version': 'the version that ovs-vswitchd reports',
  'ovs.features': 'data path, tunnel type and capabilities of the data path',
  connections: 'fill level of the tables of tracked connections',
  kernel: 'modules and settings of the kernel',
  'kernel.modules': 'kernel modules that this data path and this tunnel need, loaded or built in',
  'kernel.settings': 'the kernel settings of the agent, read again',
  disk: 'room for the journal of addresses and the last known objects; whether the journal can be written',
  limits: 'limits of the host',
  'limits.descriptors': 'open file descriptors of the agent',
  'limits.inotify': 'inotify instances of root, as which kubelet and runtime run',
  api: 'the API server, and the clock against it',
  'api.server': 'a request to it',
  'api.sources': 'whether each resource is followed',
  clock: 'the Date of the API server’s answer against this clock, and this clock against the monotonic one',
  node: 'desired and actual state of this node',
  'node.ports': 'bridge and ports, from OVSDB',
  'node.flows': 'flows, groups and meters, from OVS',
  'node.routes': 'routes, rules, addresses and neighbours, from the kernel',
  'node.firewall': 'Seine’s nftables tables',
  'node.interfaces': 'pods’ pairs of interfaces, from the kernel and their namespaces',
  pods: 'the pods’ own side',
  'pods.interface': 'the interface in the pod’s namespace',
  'pods.checksum': 'whether checksums of pods’ packets are filled in',
  'pods.mtu': 'the MTU in the pod’s namespace',
  'ports.standing': 'whether the next pod gets a pre-plugged port, if configured',
  'firewall.pods': 'a packet as if from a pod through this node, and one to it',
  peers: 'how this node sends to other nodes',
  'peers.modes': 'mode of each other node and family; those that are not reached as configured',
  wireguard: 'encryption between nodes',
  'wireguard.handshakes': 'age of the last handshake with each peer of the WireGuard device',
  'wireguard.cleartext': 'packets of pods that were dropped because they were not encrypted, counted by nftables',
  tunnel: 'the other nodes, in the mode in which this node sends to them',
  'tunnel.reach': 'an echo from the other node’s gateway: there and back, through the tunnel, without it, or through WireGuard',
  'tunnel.mtu': 'the same with the longest packet that pods send, which must not be fragmented',
  'tunnel.unknownPeers': 'tunnel packets from unknown peers',
  'ovs.associations': 'senders whose share of learned SCTP associations is full (userspace data path)',
  'ovs.fragments': 'IP fragments dropped because their datagrams were not complete in time (userspace data path)',
  'tunnel.forged': 'packets of other nodes with a source that is not theirs, counted by OVS',
  'underlay.forged': 'packets with addresses of pods that reached the node without a tunnel, counted by nftables',
  cni: 'the container runtime’s side',
  'cni.config': 'the files in the folder of CNI configurations, in the runtime’s order',
  'cni.plugins': 'every plugin of the chain, executed for its versions',
  'cni.version': 'whether plugin and agent are of one release',
  'cni.status': 'the plugin’s STATUS, executed as a runtime does: from its file to the agent’s answer',
} as const;
export type CheckName = keyof typeof checkNames;

/** Finding of one check, for operators. */
export interface Finding {
  readonly check: CheckName;
  readonly state: FindingState;
  /** State that was found, and the fault. */
  readonly what: string;
  /** Effect on traffic and pods; absent if `ok`. */
  readonly effect?: string;
  /** Remedy, as one command if possible. */
  readonly remedy?: string;
}

/**
 * Line of the reply to `POST /v1/check`: one JSON object per line, sent as soon as it is known. The plan comes first; a reply that was
 * interrupted has no `end`.
 */
export type CheckEvent =
  | { readonly kind: 'plan'; readonly node: string; readonly facts: AgentFacts; readonly checks: readonly CheckName[] }
  | { readonly kind: 'progress'; readonly says: string }
  | { readonly kind: 'finding'; readonly finding: Finding }
  | { readonly kind: 'end' };

/** Facts about the agent for the second half of the check, on the node's files. */
export interface AgentFacts {
  readonly version: string;
  /** Path of the socket on which the plugin reaches the agent. */
  readonly cniSocket: string;
}
