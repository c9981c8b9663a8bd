import type { ApiObject } from '../api.ts';
import { nodeProgramPort } from './probes.ts';

/** Node ports that belong to attackers: node ports of their Services everywhere, and host ports of their pods on those pods' nodes. */
export interface TheirPorts {
  readonly nodes: readonly { readonly name: string; readonly ip: readonly string[] }[];
  readonly services: readonly ApiObject[];
  readonly pods: readonly ApiObject[];
}

interface Tried {
  /** Source of the packet: a node, or a pod or host elsewhere. */
  readonly from: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
}

/** Ports of the node itself, whatever a pod requests. */
const neverTheirs = new Set([nodeProgramPort, 10_256]);
const neverOnLoopback = new Set([10_250, 10_349]);

/** Reports whether an answer of an attacker would be right: the address is of their Service, or the port of a node and theirs by right. */
export function isTheirs(theirs: TheirPorts, { from, address, port, protocol }: Tried): boolean {
  if (theirs.services.some(({ spec }) => ((spec?.['clusterIPs'] ?? []) as readonly string[]).includes(address))) return true;
  const isLoopback = address.startsWith('127.') || address === '::1';
  const node = isLoopback ? theirs.nodes.find(({ name }) => name === from) : theirs.nodes.find(({ ip }) => ip.includes(address));
  if (node === undefined || neverTheirs.has(port) || (isLoopback && neverOnLoopback.has(port))) return false;
  return (
    isNodePort(theirs.services, port, protocol) || theirs.pods.some((pod) => hasHostPort(pod, { node: node.name, address, port, protocol }))
  );
}

function isNodePort(services: readonly ApiObject[], port: number, protocol: 'tcp' | 'udp'): boolean {
  return services.some(({ spec }) =>
    ((spec?.['ports'] ?? []) as readonly { readonly nodePort?: number; readonly protocol?: string }[]).some(
      (each) => each.nodePort === port && (each.protocol ?? 'TCP').toLowerCase() === protocol,
    ),
  );
}

interface OnNode {
  readonly node: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
}

interface ContainerPort {
  readonly hostPort?: number;
  readonly hostIP?: string;
  readonly protocol?: string;
}

function hasHostPort({ spec }: ApiObject, { node, address, port, protocol }: OnNode): boolean {
  const selector = spec?.['nodeSelector'] as Readonly<Record<string, string>> | undefined;
  if (selector?.['kubernetes.io/hostname'] !== node) return false;
  const containers = (spec?.['containers'] ?? []) as readonly { readonly ports?: readonly ContainerPort[] }[];
  const anywhere = ['', '0.0.0.0', '::'];
  return containers
    .flatMap(({ ports = [] }) => ports)
    .some(
      ({ hostPort, hostIP = '', protocol: of = 'TCP' }) =>
        hostPort === port && of.toLowerCase() === protocol && (hostIP === address || anywhere.includes(hostIP)),
    );
}
