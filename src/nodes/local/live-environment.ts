import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { LiveSettings } from '../../kubernetes/resources/live-settings.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { NodeConfig } from './node-config.ts';
import { type HostInterface, type PeerPaths, resolveEnvironment } from './node-environment.ts';

export interface EnvironmentSources {
  readonly config: NodeConfig;
  readonly nodes: Pick<Replica<Node>, 'get' | 'synced'>;
  readonly interfaces: () => readonly HostInterface[];
  /** Returns other addresses of the node; absent: none. */
  readonly localAddresses?: () => readonly Ip[];
  /** Returns the settings of all nodes; absent: none. */
  readonly liveSettings?: () => LiveSettings | undefined;
  /** Reports whether peers may still send encrypted packets although encryption is turned off; absent: no. */
  readonly isEncryptionEnding?: () => boolean;
  /** Returns how packets are exchanged with peers at this moment; absent: through the tunnel. */
  readonly peerPaths?: () => Pick<PeerPaths, 'acceptsDirect' | 'usesTunnel'>;
  readonly log: Log;
}

type EnvironmentListener = (now: NodeEnvironment, before: NodeEnvironment) => void;

/**
 * Current environment of this node: determined again whenever its Node object, its interfaces or its pods' networks may have changed.
 *
 * Invalid changes have no effect: a Node object that was deleted, names an address that this host does not have, or has no pod network any
 * more leaves running pods unchanged, and is reported.
 */
export class LiveEnvironment {
  readonly #sources: EnvironmentSources;
  readonly #listeners = new Set<EnvironmentListener>();
  #current: NodeEnvironment;
  #previousCidrs: () => readonly Cidr[] = () => [];
  #problem: string | undefined;

  /** @throws SeineError `UNAVAILABLE` for what may still appear */
  constructor(sources: EnvironmentSources) {
    this.#sources = sources;
    this.#current = this.#resolve();
  }

  get current(): NodeEnvironment {
    return this.#current;
  }

  /** Reason why the previous environment is still used; undefined if it is not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** @param formerCidrs returns networks of pods that this node still has, possibly including the present ones; called at every check */
  countPods(formerCidrs: () => readonly Cidr[]): void {
    this.#previousCidrs = formerCidrs;
    this.look();
  }

  /** Calls back with every change. @returns a function that ends it */
  subscribe(listener: EnvironmentListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  look(): void {
    const { log } = this.#sources;
    const before = this.#current;
    try {
      this.#current = this.#resolve();
      if (this.#problem !== undefined) log.info('the node matches its Node object again');
      this.#problem = undefined;
    } catch (thrown) {
      const { message, remedy } = SeineError.from(thrown, 'read the environment of the node');
      if (remedy === 'crash') throw thrown;
      if (message !== this.#problem)
        log.error('the node does not match its Node object; the previous environment stays in use', { reason: message });
      this.#problem = message;
      return;
    }
    const [was, is] = [describe(before), describe(this.#current)];
    const changed = Object.keys(is).filter((key) => is[key] !== was[key]);
    if (changed.length === 0) {
      this.#current = before;
      return;
    }
    const difference = Object.fromEntries(changed.map((key) => [key, { before: was[key], now: is[key] }]));
    log.warn('the environment of the node changed; updating all flows', difference);
    for (const listener of this.#listeners) listener(this.#current, before);
  }

  #resolve(): NodeEnvironment {
    const { config, nodes, interfaces, localAddresses, liveSettings, isEncryptionEnding, peerPaths } = this.#sources;
    const node = nodes.get(config.nodeName);
    if (!node)
      throw new SeineError(
        'UNAVAILABLE',
        nodes.synced ? `the API server has no Node ${config.nodeName}` : 'the API server has not answered yet',
      );
    const paths = { ...peerPaths?.(), isEncryptionEnding: isEncryptionEnding?.() ?? false };
    const resolved = resolveEnvironment(config, node, interfaces(), this.#previousCidrs(), liveSettings?.(), paths);
    return localAddresses ? { ...resolved, localAddresses: localAddresses() } : resolved;
  }
}

/** Returns each part as a string. */
function describe({
  gateway,
  tunnel,
  podCidrs,
  formerPodCidrs,
  transport,
  serviceCidrs,
  localAddresses = [],
  policyMode = 'enforce',
  directPackets,
  denied = 'drop',
  liveConnections = 'cut',
  blindToSctp,
  wireGuard,
}: NodeEnvironment): Readonly<Record<string, string>> {
  const list = (values: readonly { readonly text: string }[]): string => values.map(({ text }) => text).join(', ');
  return {
    gateway: `${gateway.name} ${gateway.ofPort} ${gateway.mac}`,
    mtu: String(gateway.mtu),
    addresses: list(gateway.addresses),
    tunnel: `${tunnel.type} ${tunnel.port} ${tunnel.ofPort}`,
    podCidrs: list(podCidrs),
    formerPodCidrs: list(formerPodCidrs ?? []),
    transport: list(transport),
    serviceCidrs: list(serviceCidrs),
    localAddresses: list(localAddresses),
    policyMode,
    directPackets: String(directPackets === true),
    denied,
    liveConnections,
    blindToSctp: String(blindToSctp === true),
    encryption: wireGuard ? `${wireGuard.device} ${wireGuard.port} ${wireGuard.unencryptedPeers} ${wireGuard.isEnding === true}` : 'none',
  };
}
