import type { NodeTrace } from '../../api/trace.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { BridgeKey, BridgeValue } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import type { ReadInputs } from '../../operations/compiler-inputs/inputs-document.ts';
import { readHeld } from '../../operations/compiler-inputs/installed-bridge.ts';
import { type KernelTranslation, kernelPaths } from '../../operations/trace/kernel-paths.ts';
import { type ServiceAddress, shownAddresses } from '../../services/compile/service-intent.ts';
import { translatedPorts } from '../../services/compile/translated-ports.ts';
import { FlowLayer } from './flow-layer.ts';
import { blockedModes, leaseOf, type TraceableNode, tracedOn, tunnelTypes } from './simulated-trace.ts';

/** Parts of a support bundle by which packets of its node are traced. */
interface BundleParts {
  readonly read: ReadInputs;
  /** Entries of the bridge, `openflow/held.ndjson`. */
  readonly heldText: string;
  /** Owners whose names are known besides those of the inputs. */
  readonly owners: readonly string[];
  /** Pods of the cluster, `namespace/name`, with their addresses. */
  readonly pods: ReadonlyMap<string, readonly string[]>;
  /** Names of the bridge's ports by number, as flows are to have them. */
  readonly ports?: ReadonlyMap<number, string>;
}

/**
 * Node of a support bundle: the flows that it had, and those that its inputs compile to. Rows of policies are not in the inputs: both sides have
 * those of the bridge.
 */
export class BundledNode {
  readonly name: string;
  /** Entries that the inputs compile to, as `seinectl compile` prints them. */
  readonly compiled: ReadonlyMap<BridgeKey, BridgeValue>;
  /** Environment that its agent recorded. */
  readonly environment: NodeEnvironment;
  /** Number of entries of the bridge, without those of policies, that differ from the compiled ones: missing, unexpected or different. */
  readonly differences: number;
  readonly #node: TraceableNode;
  readonly #refused: ReadonlySet<string>;

  /** @throws SeineError `INVALID_INPUT` for entries that cannot be parsed */
  constructor({ read: { node, inputs }, heldText, owners, pods, ports }: BundleParts) {
    this.name = node;
    const { entries, learned, owners: compiledOwners } = compileInputs(inputs);
    this.compiled = entries;
    const { held, policyFlows } = readHeld(heldText, learned);
    this.environment = inputs.environment;
    this.#refused = new Set(inputs.peers.flatMap(({ name, refusesTunnel }) => (refusesTunnel ? [name] : [])));
    this.differences = differencesOf(entries, held);
    const layer = (own: ReadonlyMap<BridgeKey, BridgeValue>): FlowLayer => {
      const flows = new FlowLayer();
      for (const [key, value] of [...own, ...policyFlows]) flows.add(key, value);
      return flows;
    };
    const [bridge, desired] = [layer(held), layer(entries)];
    for (const owner of [...compiledOwners, ...(owners as readonly Owner[])]) desired.name(owner);
    this.#node = {
      name: node,
      environment: inputs.environment,
      names: namesOf({ node, inputs, pods }),
      hopNames: hopNamesOf(inputs, pods, desired),
      bridge,
      desired,
      onward: onwardOf(node, inputs),
      ...(ports && { portName: (port: number) => ports.get(port) }),
    };
  }

  /** Traces a packet, like the path `/v1/trace` of the agent. @throws SeineError `INVALID_INPUT` that names the field and the value */
  async trace(query: URLSearchParams): Promise<NodeTrace> {
    return await tracedOn(this.#node, query);
  }

  /** Reports whether this node drops packets of another node that arrive in the tunnel, because they are to be encrypted. */
  refusesTunnelOf(peer: string): boolean {
    return this.#refused.has(peer);
  }

  /** Reports whether a name of a sender or receiver is of this node. */
  hasPod(name: string): boolean {
    return this.#node.names.leases.some(({ pod }) => `${pod?.namespace}/${pod?.name}` === name);
  }
}

function differencesOf(compiled: ReadonlyMap<BridgeKey, BridgeValue>, held: ReadonlyMap<BridgeKey, BridgeValue>): number {
  let count = 0;
  for (const [key, value] of compiled) if (held.get(key) !== value) count++;
  for (const key of held.keys()) if (!compiled.has(key)) count++;
  return count;
}

type Inputs = ReadInputs['inputs'];

/** Node ports are taken as open at all of the node's addresses: the configuration of the agent is not among its inputs. */
function translationsOf({ environment, services }: Inputs): KernelTranslation {
  const own = new Set([...environment.transport, ...(environment.localAddresses ?? [])].map(({ text }) => text));
  return translatedPorts(
    services.map(({ intent }) => intent),
    ({ text }) => own.has(text),
  );
}

export function onwardOf(node: string, inputs: Inputs): TraceableNode['onward'] {
  const peers = { intents: () => inputs.peers, modesOf: (name: string) => blockedModes(inputs.environment, inputs.peers, name) };
  return kernelPaths(peers, { node, environment: inputs.environment, translated: translationsOf(inputs) });
}

/** `pod/NAMESPACE/NAME/eth0@ID` becomes `NAMESPACE/NAME`. */
export function podNameOf(owner: Owner): string {
  return owner.split('/').slice(1, 3).join('/');
}

export function namesOf({ node, inputs, pods }: Pick<ReadInputs, 'node' | 'inputs'> & Pick<BundleParts, 'pods'>): TraceableNode['names'] {
  const ports = new Map(inputs.pods.map(({ owner, intent }) => [podNameOf(owner), intent.ofPort]));
  return {
    node,
    environment: inputs.environment,
    leases: inputs.pods.map(({ owner, intent }, at) => leaseOf(podNameOf(owner), at, intent)),
    portOf: ({ attached }) => (attached ? ports.get(attached.hostIfName) : undefined),
    podElsewhere: (name) => {
      const addresses = pods.get(name);
      const [namespace = '', own = ''] = name.split('/');
      return addresses && { namespace, name: own, podIps: addresses.map((each) => parseIp(each).text), labels: {}, ports: {} };
    },
    service: (name) => serviceNamed(inputs, name),
    translated: translationsOf(inputs),
    peer: (name) => {
      const peer = inputs.peers.find((each) => each.name === name);
      const texts = (all: readonly Ip[]): readonly string[] => all.map(({ text }) => text);
      return (
        peer && {
          name,
          podCidrs: peer.podCidrs.map(({ text }) => text),
          transport: Object.fromEntries(peer.transport.map(({ family, text }) => [family, text])),
          addresses: texts(peer.transport),
        }
      );
    },
  };
}

/** Cluster addresses and ports of a Service, from the ports that the node served. */
function serviceNamed({ services }: Inputs, name: string): ReturnType<TraceableNode['names']['service']> {
  const own = services.filter(({ owner }) => owner.startsWith(`service/${name}:`)).map(({ intent }) => intent);
  if (own.length === 0) return undefined;
  const addressesOf = (asked: ServiceAddress['kind']): readonly string[] => [
    ...new Set(own.flatMap((intent) => shownAddresses(intent).flatMap(({ kind, ip }) => (kind === asked ? [ip.text] : [])))),
  ];
  const ports = own.map(({ port, transport, addresses }) => {
    const nodePort = addresses.find(({ kind }) => kind === 'nodePort')?.port;
    return { port, protocol: protocolNames[transport], ...(nodePort !== undefined && { nodePort }) };
  });
  const unique = new Map(ports.map((each) => [`${each.port} ${each.protocol}`, each]));
  return {
    clusterIps: addressesOf('cluster'),
    ports: [...unique.values()],
    externalIps: addressesOf('external'),
    loadBalancerIngress: addressesOf('loadBalancer').map((ip) => ({ ip, ipMode: 'VIP' as const })),
  };
}

const protocolNames = { tcp: 'TCP', udp: 'UDP', sctp: 'SCTP' } as const;

export function hopNamesOf(inputs: Inputs, pods: BundleParts['pods'], desired: FlowLayer): TraceableNode['hopNames'] {
  const { gateway, tunnel } = inputs.environment;
  const byPort = new Map<number, string>([
    [gateway.ofPort, 'the node, through its gateway'],
    [tunnel.ofPort, 'the tunnel'],
    ...inputs.pods.map(({ owner, intent }) => [intent.ofPort, `pod ${podNameOf(owner)}`] as const),
  ]);
  const byAddress = new Map([
    ...[...pods].flatMap(([name, addresses]) => addresses.map((each) => [parseIp(each).text, name] as const)),
    ...inputs.pods.flatMap(({ owner, intent }) => intent.addresses.map(({ text }) => [text, podNameOf(owner)] as const)),
  ]);
  return {
    port: (number) => byPort.get(number) ?? `port ${number}`,
    peerAt: (address) => inputs.peers.find(({ transport }) => transport.some(({ text }) => text === address))?.name,
    podAt: (address) => byAddress.get(address),
    owner: (cookie) => desired.ownerOf(cookie),
    tunnelType: tunnelTypes[tunnel.type],
  };
}
