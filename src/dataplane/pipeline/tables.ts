import { SeineError } from '../../base/errors/seine-error.ts';

interface TableSpec {
  /** OpenFlow table number. It never changes; numbers have gaps. */
  readonly id: number;
  readonly doc: string;
  /** Action for packets that no flow matches; a table name means `goto`. */
  readonly miss: string | 'drop' | 'return' | 'chooseEndpoint' | 'balanceOrPass';
}

/** Tables in the order in which packets visit them. OpenFlow refuses a `goto` that does not move down this list. */
export const tables = {
  classify: { id: 0, miss: 'drop', doc: 'Source of the packet: tunnel (known peers only), gateway, local pod.' },
  spoofGuard: {
    id: 4,
    miss: 'drop',
    doc: 'A pod may only use its own Ethernet, IP, ARP and ND addresses; another node only addresses of its pods.',
  },
  neighbour: { id: 8, miss: 'drop', doc: 'ARP and ND: answered for peer gateways, otherwise forwarded to the owner of the address.' },
  announcements: { id: 10, miss: 'drop', doc: 'ARP and ND of a pod about its own addresses: flooded, up to a rate for each pod.' },
  unSnat: { id: 12, miss: 'track', doc: 'Restores the destination of replies to a translated source; marks routed packets.' },
  track: { id: 14, miss: 'drop', doc: 'Looks the connection up; replies and later packets are translated here.' },
  errorTranslation: {
    id: 15,
    miss: 'drop',
    doc: 'ICMP errors, looked up and not translated yet: translates them, those about connections to Services as the data path requires.',
  },
  state: { id: 16, miss: 'drop', doc: 'Drops invalid packets; packets of known connections skip the choice of an endpoint.' },
  errorEnds: {
    id: 18,
    miss: 'drop',
    doc: 'ICMP errors, looked up by the original tuple of the connection that they are about: from a local pod only if the pod is an end of it, from another node only if an end is there.',
  },
  serviceEntry: {
    id: 20,
    miss: 'sourceRanges',
    doc: 'Client of a Service: pod, node or external. Peers have chosen an endpoint already.',
  },
  openings: {
    id: 21,
    miss: 'sourceRanges',
    doc: 'Opening packets of local pods to Services: those of a pod that policy isolates pass a meter.',
  },
  sourceRanges: {
    id: 22,
    miss: 'balanceOrPass',
    doc: 'Load balancer addresses with loadBalancerSourceRanges: to the set of ranges of their Service; runs `affinity`, then `balance` for all else.',
  },
  sourceRangeSets: { id: 23, miss: 'drop', doc: 'loadBalancerSourceRanges, each set once; runs `affinity`, then `balance`.' },
  affinity: { id: 24, miss: 'chooseEndpoint', doc: 'Learned: the endpoint of a client.' },
  balance: { id: 26, miss: 'dnat', doc: 'Service address and port to a group; each bucket names an endpoint.' },
  dnat: {
    id: 28,
    miss: 'egressEntry',
    doc: 'Translates to the chosen endpoint and commits the connection, which becomes valid once it is admitted.',
  },
  associations: {
    id: 34,
    miss: 'return',
    doc: 'Learned: admitted SCTP associations, if conntrack does not support SCTP ports.',
  },
  egressEntry: {
    id: 36,
    miss: 'drop',
    doc: 'Entry flows of senders: a local pod without a flow here cannot send. Loads its class, if policy isolates it.',
  },
  egressLookup: { id: 37, miss: 'drop', doc: 'Replies are allowed; the rest goes to `destinationIdentity`.' },
  destinationIdentity: { id: 38, miss: 'return', doc: 'Address to identity: numbers of the peers of rules that it is in. Only loads.' },
  egressAdmin: {
    id: 40,
    miss: 'drop',
    doc: 'ClusterNetworkPolicy, Admin tier: like `egressNetworkPolicy`; what it does not decide continues there.',
  },
  egressAdminPorts: { id: 41, miss: 'drop', doc: 'Decisions of the Admin tier by protocol and port.' },
  egressNetworkPolicy: {
    id: 42,
    miss: 'drop',
    doc: 'NetworkPolicy: class of the pod and identity of its peer to a verdict, or to a decision by ports.',
  },
  egressNetworkPolicyPorts: { id: 43, miss: 'drop', doc: 'Decisions by protocol and port.' },
  egressBaseline: { id: 44, miss: 'drop', doc: 'ClusterNetworkPolicy, Baseline tier: for pods that no NetworkPolicy isolates.' },
  egressBaselinePorts: { id: 45, miss: 'drop', doc: 'Decisions of the Baseline tier by protocol and port.' },
  egressVerdict: { id: 46, miss: 'drop', doc: 'Allows, or bars the connection and drops; logs if requested.' },
  route: { id: 56, miss: 'drop', doc: 'Next hop: local pod, peer node, or the gateway. Forged tunnel packets end here.' },
  egressMark: { id: 58, miss: 'ttl', doc: 'Source address chosen for a pod (reserved).' },
  ttl: { id: 60, miss: 'snatMark', doc: 'Routed packets: Ethernet source becomes the gateway, TTL is decremented.' },
  snatMark: { id: 64, miss: 'snat', doc: 'Marks connections whose replies would be lost without source translation.' },
  snat: { id: 66, miss: 'switch', doc: 'Translates the source of marked connections, in a zone of its own.' },
  switch: { id: 72, miss: 'drop', doc: 'Ethernet destination to port.' },
  ingressEntry: {
    id: 80,
    miss: 'drop',
    doc: 'Entry flows of receivers: a local pod without a flow here receives nothing. Packets of its own node pass.',
  },
  ingressLookup: { id: 81, miss: 'drop', doc: 'As `egressLookup`, by `sourceIdentity`.' },
  sourceIdentity: { id: 82, miss: 'return', doc: 'Like `destinationIdentity`, for the source address of a packet.' },
  ingressAdmin: { id: 84, miss: 'drop', doc: 'Like `egressAdmin`.' },
  ingressAdminPorts: { id: 85, miss: 'drop', doc: 'Like `egressAdminPorts`.' },
  ingressNetworkPolicy: { id: 86, miss: 'drop', doc: 'As `egressNetworkPolicy`.' },
  ingressNetworkPolicyPorts: { id: 87, miss: 'drop', doc: 'As `egressNetworkPolicyPorts`.' },
  ingressBaseline: { id: 88, miss: 'drop', doc: 'Like `egressBaseline`.' },
  ingressBaselinePorts: { id: 89, miss: 'drop', doc: 'Like `egressBaselinePorts`.' },
  ingressVerdict: { id: 90, miss: 'drop', doc: 'As `egressVerdict`.' },
  commit: {
    id: 100,
    miss: 'tunnel',
    doc: 'Commits new connections that no earlier table committed; admitted ones are valid from here on. The last ct().',
  },
  associationShares: {
    id: 101,
    miss: 'return',
    doc: 'SCTP associations, if conntrack does not support SCTP ports: learns admitted ones, for each sender up to its share.',
  },
  unlearnedAssociations: {
    id: 102,
    miss: 'return',
    doc: 'Counts packets of admitted SCTP associations that were not learned, because the share of the sender is full.',
  },
  tunnel: { id: 104, miss: 'output', doc: 'Peer to tunnel source and destination.' },
  output: { id: 110, miss: 'drop', doc: 'Outputs to the port in the register, or to the input port (hairpin).' },
  timeExceeded: {
    id: 112,
    miss: 'drop',
    doc: 'Packets whose TTL or hop limit ends on this hop, otherwise admitted: to the agent, up to a rate for each share of senders.',
  },
  refusals: {
    id: 114,
    miss: 'drop',
    doc: 'Packets of pods that policy denies and that may be answered: to the agent, up to a rate for each share of senders.',
  },
  unknownTunnelPeers: { id: 120, miss: 'return', doc: 'Learned: counts tunnel packets from unknown peers, by address.' },
} as const satisfies Readonly<Record<string, TableSpec>>;

export type PipelineTableName = keyof typeof tables;

export const tableNames = Object.keys(tables) as PipelineTableName[];

const namesById = new Map<number, PipelineTableName>(tableNames.map((name) => [tables[name].id, name]));

/** Returns the name of a table, or `undefined` for an unknown number. */
export function tableName(id: number): PipelineTableName | undefined {
  return namesById.get(id);
}

/** @throws SeineError `INVARIANT` at load if numbers do not increase, or a miss points backwards: OVS would refuse the flow */
function checkOrder(): void {
  const ids = tableNames.map((name) => tables[name].id);
  if (ids.some((id, index) => index > 0 && id <= (ids[index - 1] ?? -1))) throw new SeineError('INVARIANT', 'table numbers do not grow');
  for (const name of tableNames) {
    const { id, miss } = tables[name];
    if (miss in tables && tables[miss as PipelineTableName].id <= id)
      throw new SeineError('INVARIANT', `${name} has its miss backwards, to ${miss}`);
  }
}

checkOrder();
