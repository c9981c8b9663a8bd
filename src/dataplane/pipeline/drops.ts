import type { PipelineTableName } from './tables.ts';

/** Place where packets are dropped, or given to the agent instead of their receiver. */
interface DropSpec {
  readonly table: PipelineTableName;
  /** Priorities of the flows; absent: any. 0 is the table's miss. */
  readonly priorities?: readonly number[];
  /** Fields, by their names in OpenFlow, that the flow matches. */
  readonly fields?: readonly string[];
  /** Sentence about the event. */
  readonly message: string;
  readonly cause: string;
  readonly remedy: string;
}

const fixed = 'None needed: such packets are never forwarded';

/**
 * Every path to a drop, with its name. Names are public: they are labels of a metric and part of answers, so they never change. If several
 * rows fit a flow, the first one counts.
 */
export const drops = {
  'ethernet.vlan': {
    table: 'classify',
    fields: ['vlan_vid'],
    message: 'The frame has a VLAN tag',
    cause: 'A pod sends tagged frames, for example over a VLAN interface of its own',
    remedy: 'Send untagged frames; pods have one network',
  },
  'tunnel.unknownPeer': {
    table: 'classify',
    message: 'The packet came from a tunnel address, or a port, that belongs to no known node or pod',
    cause: 'A node that is not in the cluster any more, a node whose address changed, or a forged packet',
    remedy: '`seinectl check --peer NODE`; compare the InternalIP of the Node with the address in `seinectl get nodes`',
  },
  'tunnel.forged': {
    table: 'spoofGuard',
    priorities: [100],
    message: 'The sender in the tunnel packet is not a pod of the node that it came from',
    cause: 'The podCIDR of the Node changed, two nodes have overlapping podCIDRs, or the packet is forged',
    remedy: 'Compare spec.podCIDRs of both Nodes with the address of the sender',
  },
  'neighbour.refused': {
    table: 'spoofGuard',
    fields: ['icmpv6_type'],
    message: 'The neighbour discovery message, or router advertisement, is not one that a pod may send',
    cause: 'Most pods ask for routers when they start; or a pod announces addresses of others, or routes',
    remedy: fixed,
  },
  'spoofed.address': {
    table: 'spoofGuard',
    message: 'The source address, or the Ethernet source, is not one of the sender',
    cause:
      'The pod sends with an address that it was not given: a virtual machine or container inside it, an address added by hand, or an attack. A few packets at the start of a pod are tests of its IPv6 address',
    remedy: 'Send with the address of the pod: `seinectl get pods` shows it. Translate addresses inside the pod',
  },
  'neighbour.unknown': {
    table: 'neighbour',
    message: 'ARP or neighbour discovery asks for an address that no port has here',
    cause: 'The receiver is gone, or is not of this network',
    remedy: 'Look for the address in `seinectl get pods`',
  },
  'neighbour.rate': {
    table: 'announcements',
    message: 'A pod announces addresses that it may not announce',
    cause: 'ARP or neighbour discovery of the pod about addresses of others',
    remedy: fixed,
  },
  'protocol.unknown': {
    table: 'track',
    message: 'The packet is of neither IPv4 nor IPv6, or of a family that this node does not have',
    cause: 'The cluster has one family of addresses, and the packet is of the other, or of another EtherType',
    remedy: 'Use a family that `seinectl status` lists',
  },
  'error.untranslated': {
    table: 'errorTranslation',
    message: 'The ICMP error is about no connection that is known here',
    cause: 'The connection ended before the error arrived, or the error is forged',
    remedy: fixed,
  },
  'neighbour.routed': {
    table: 'state',
    fields: ['icmpv6_type'],
    message: 'A neighbour discovery message came over a router or a tunnel',
    cause: 'A forged message',
    remedy: fixed,
  },
  'connection.halfOpen': {
    table: 'state',
    priorities: [230, 250],
    fields: ['ip_proto'],
    message: 'The packet belongs to no known connection, and the agent decides whether it opens one',
    cause: 'A connection that was open before OVS started, or a SYN for a half-open connection',
    remedy: 'None needed: the client repeats the packet, or gets a reset',
  },
  'connection.notAdmitted': {
    table: 'state',
    fields: ['ct_mark'],
    message: 'The packet belongs to a connection that policy has not admitted',
    cause: 'A reply to a packet that policy denied, or that was dropped later on its way',
    remedy: 'Trace the opening direction: its drop is the cause',
  },
  'connection.invalid': {
    table: 'state',
    message: 'The packet belongs to no connection, and cannot open one',
    cause: 'A reply whose request took another path, a connection that timed out, or a wrong checksum',
    remedy: 'Check that both directions take the same path: `seinectl trace` from the other end; look at tx-checksumming of the interface',
  },
  'error.foreign': {
    table: 'errorEnds',
    message: 'The ICMP error is about a connection of others',
    cause: 'A pod or node that is no end of the connection reports an error about it',
    remedy: fixed,
  },
  'service.virtualSource': {
    table: 'serviceEntry',
    message: 'The source is a virtual address, or an address of a Service',
    cause: 'The node sends with an address that belongs to no interface',
    remedy: 'Look for an address of a Service on an interface of the node: `ip address`',
  },
  'service.sourceRanges': {
    table: 'sourceRangeSets',
    message: 'The client is in none of the loadBalancerSourceRanges of the Service',
    cause: 'spec.loadBalancerSourceRanges of the Service does not contain the address of the client as this node sees it',
    remedy: 'Add the network of the client to spec.loadBalancerSourceRanges',
  },
  'service.noEndpoint': {
    table: 'balance',
    message: 'The Service has no endpoint for this client',
    cause: 'No ready pod matches the selector, or the traffic policy is Local and no endpoint is on this node',
    remedy: '`seinectl explain service NAMESPACE/NAME`; `kubectl get endpointslices`',
  },
  'service.untranslated': {
    table: 'dnat',
    message: 'An endpoint was chosen, but the translation to it is missing',
    cause: 'The flow of the endpoint is missing: it was removed, refused by OVS, or is not installed yet',
    remedy: '`seinectl diff` shows a missing flow; the agent installs it again unless repair is paused',
  },
  'service.noFreeTuple': {
    table: 'egressEntry',
    priorities: [240, 250],
    message: 'No free source port is left for the translation to the endpoint',
    cause: 'A client has more connections to one endpoint than there are ports, through several Services',
    remedy: 'Use fewer connections, or more endpoints',
  },
  'pod.egressBlocked': {
    table: 'egressEntry',
    message: 'The sender is blocked: it has no entry flow',
    cause: 'Its policies are not known yet, or its flow was removed',
    remedy: '`seinectl policy pod NAMESPACE/POD` gives the reason; `seinectl diff` shows a missing flow',
  },
  'policy.egressTables': {
    table: 'egressLookup',
    message: 'Policy tables lack a flow for a pod that policy isolates',
    cause: 'A policy flow was removed, or refused by OVS',
    remedy: '`seinectl diff`',
  },
  'policy.egress': {
    table: 'egressVerdict',
    message: 'Egress policies of the sender do not allow the connection',
    cause: 'A policy isolates the sender, and no rule allows this peer and port',
    remedy: '`seinectl policy explain FROM TO PORT/PROTOCOL` names the policies and the change that would allow it',
  },
  multicast: {
    table: 'route',
    priorities: [250],
    fields: ['ip_dst'],
    message: 'The destination is a multicast, broadcast or virtual address',
    cause: 'Multicast is not forwarded between pods',
    remedy: 'Use unicast',
  },
  'multicast.ipv6': {
    table: 'route',
    priorities: [250],
    fields: ['ipv6_dst'],
    message: 'The destination is a multicast or virtual address',
    cause: 'Multicast is not forwarded between pods',
    remedy: 'Use unicast',
  },
  'tunnel.fromPod': {
    table: 'route',
    fields: ['ip_proto'],
    priorities: [220, 250],
    message: 'A pod sends tunnel packets to a node',
    cause: 'A tunnel endpoint in a pod, with the port or protocol of the tunnel between nodes',
    remedy: 'Give the tunnel in the pod another port',
  },
  'service.unservedPort': {
    table: 'route',
    priorities: [190, 195],
    fields: ['ip_proto'],
    message: 'No Service has this address and port; the client gets a refusal',
    cause: 'The Service does not have this port, or is gone',
    remedy: '`kubectl get service -A` with the address',
  },
  'route.directPeer': {
    table: 'route',
    priorities: [235],
    message: 'The destination is a pod of a node that is reached without a tunnel, and such packets do not pass the bridge from here',
    cause: 'A route of the node leads packets for a pod of another node to the gateway',
    remedy: '`ip route get ADDRESS`; `seinectl get routes`',
  },
  'route.transit': {
    table: 'route',
    priorities: [200],
    message: 'A packet from a tunnel is not for a pod of this node',
    cause: 'The pod is gone, or the sending node has an old podCIDR of this node',
    remedy: 'Look for the address in `kubectl get pods -A -o wide`; `seinectl check --peer NODE` on the sending node',
  },
  'route.none': {
    table: 'route',
    message: 'No pod, Service or node has the destination address',
    cause: 'The pod is gone, the node that has it is not known here, or the address is not of a pod, Service or node',
    remedy: 'Look for the address in `kubectl get pods -A -o wide`; `seinectl get nodes` lists the nodes that are known here',
  },
  'switch.unknown': {
    table: 'switch',
    message: 'No port has the Ethernet destination',
    cause: 'The neighbour entry of the sender is old, or the flow of the receiver is missing',
    remedy: '`seinectl diff`; `ip neigh` at the sender',
  },
  'pod.ingressBlocked': {
    table: 'ingressEntry',
    message: 'The receiver is blocked: it has no entry flow',
    cause: 'Its policies are not known yet, or its flow was removed',
    remedy: '`seinectl policy pod NAMESPACE/POD` gives the reason; `seinectl diff` shows a missing flow',
  },
  'policy.ingressTables': {
    table: 'ingressLookup',
    message: 'Policy tables lack a flow for a pod that policy isolates',
    cause: 'A policy flow was removed, or refused by OVS',
    remedy: '`seinectl diff`',
  },
  'policy.ingress': {
    table: 'ingressVerdict',
    message: 'Ingress policies of the receiver do not allow the connection',
    cause: 'A policy isolates the receiver, and no rule allows this peer and port',
    remedy: '`seinectl policy explain FROM TO PORT/PROTOCOL` names the policies and the change that would allow it',
  },
  'output.none': {
    table: 'output',
    message: 'No output port was chosen',
    cause: 'A flow before this table is missing',
    remedy: '`seinectl diff`',
  },
  ttl: {
    table: 'timeExceeded',
    message: 'The TTL, or hop limit, ended here; the sender gets an error',
    cause: 'A traceroute, or a loop of routes',
    remedy: 'None for a traceroute. For a loop: `ip route` on the nodes of the path',
  },
  'policy.refused': {
    table: 'refusals',
    message: 'Policy denies the connection; the sender gets a refusal',
    cause: 'A policy isolates an end, and no rule allows this peer and port',
    remedy: '`seinectl policy explain FROM TO PORT/PROTOCOL` names the policies and the change that would allow it',
  },
} as const satisfies Readonly<Record<string, DropSpec>>;

export type DropName = keyof typeof drops;

/** Drops that a table's policy evaluation may have; all mean that a flow is missing. */
const policyTables = {
  egress: /^egress(?:Lookup|Admin|NetworkPolicy|Baseline)/,
  ingress: /^ingress(?:Lookup|Admin|NetworkPolicy|Baseline)/,
} as const;

interface DroppingFlow {
  readonly table: PipelineTableName;
  /** Absent: no flow matched. */
  readonly priority?: number;
  /** Fields that the flow matches, by their names in OpenFlow. */
  readonly fields: readonly string[];
}

/** Returns the name of the drop of a flow, or of a table without a matching flow; undefined if it has none. */
export function dropOf({ table, priority = 0, fields }: DroppingFlow): DropName | undefined {
  if (policyTables.egress.test(table)) return 'policy.egressTables';
  if (policyTables.ingress.test(table)) return 'policy.ingressTables';
  return dropNames.find((name) => {
    const spec: DropSpec = drops[name];
    return (
      spec.table === table && (spec.priorities?.includes(priority) ?? true) && (spec.fields ?? []).every((field) => fields.includes(field))
    );
  });
}

export const dropNames = Object.keys(drops) as DropName[];
