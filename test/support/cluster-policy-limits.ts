import type { ClusterNetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';

/* Limits that the CRD of ClusterNetworkPolicy (v1beta1 of release 0.3.0) sets, written by hand from its text. */

const LIST_MAX = 25;
const NAME_MAX = 100;
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Returns the fields that the API server would refuse. */
export function crdFaults({ metadata, spec }: ClusterNetworkPolicyObject): readonly string[] {
  const faults: string[] = [];
  const demand = (isMet: boolean, text: string): void => {
    if (!isMet) faults.push(`${metadata.name} ${text}`);
  };
  const oneField = (value: object): boolean => Object.keys(value).length === 1;
  demand(metadata.name.length <= 253 && subdomain.test(metadata.name), 'metadata.name');
  demand(Number.isInteger(spec.priority) && spec.priority >= 0 && spec.priority <= 1_000, 'spec.priority');
  demand(oneField(spec.subject), 'spec.subject');
  for (const direction of ['ingress', 'egress'] as const) {
    demand((spec[direction]?.length ?? 0) <= LIST_MAX, `spec.${direction}`);
    for (const { name, from, to, protocols } of spec[direction] ?? []) {
      const peers = direction === 'ingress' ? from : to;
      demand((name?.length ?? 0) <= NAME_MAX, 'name');
      demand(peers !== undefined && peers.length >= 1 && peers.length <= LIST_MAX && peers.every(oneField), 'peers');
      demand((direction === 'ingress' ? to : from) === undefined, 'peers of the other direction');
      demand(protocols === undefined || (protocols.length >= 1 && protocols.length <= LIST_MAX && protocols.every(oneField)), 'protocols');
      const hasNamedPort = protocols?.some((entry) => entry.destinationNamedPort !== undefined) ?? false;
      const hasAddresses = peers?.some((peer) => (peer.networks ?? peer.nodes ?? peer.domainNames) !== undefined) ?? false;
      demand(!hasNamedPort || !hasAddresses, 'a named port with networks, nodes or names');
      demand(direction === 'egress' || !hasAddresses, 'networks, nodes or names in an ingress rule');
      for (const { networks = ['any'] } of peers ?? [])
        demand(networks.length >= 1 && networks.length <= LIST_MAX && new Set(networks).size === networks.length, 'networks');
      for (const { tcp, udp, sctp } of protocols ?? []) {
        const port = (tcp ?? udp ?? sctp)?.destinationPort;
        const isRange = port?.range === undefined || port.range.start < port.range.end;
        demand((tcp ?? udp ?? sctp) === undefined || (port !== undefined && oneField(port) && isRange), 'destinationPort');
      }
    }
  }
  return faults;
}
