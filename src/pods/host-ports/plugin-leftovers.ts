import { createHash } from 'node:crypto';
import { SeineError } from '../../base/errors/seine-error.ts';
import { deleteLink, getLink } from '../../netlink/links.ts';
import { Batch } from '../../netlink/message.ts';
import { Nftables, type NftFamily, nftName, objectsIn } from '../../netlink/nftables/nftables.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Chain from which `portmap` jumps to those of its containers, in the table that iptables-nft keeps. */
const hostPortChain = 'CNI-HOSTPORT-DNAT';
const families: readonly NftFamily[] = ['ip', 'ip6'];

/** Container and network of an attachment. */
interface ContainerOfNetwork {
  readonly network: string;
  readonly containerId: string;
}

interface LeftoverOptions {
  /** Socket of protocol `route`, in the node's namespace. */
  readonly socket: NetlinkSocket;
  /** Opens nftables. Default: in the caller's own namespace. */
  readonly open?: () => Nftables;
}

/**
 * Objects that the plugins `portmap` and `bandwidth` made for a container, found by their computed names. Runtimes call DEL with the
 * current plugin list, so for pods attached while these plugins were in it, nothing else removes the objects.
 *
 * Names: `CNI-DN-` or `bwp`, and SHA-512 of network and container ID, truncated to 28 and 15 characters (containernetworking/plugins,
 * `pkg/utils/utils.go`).
 */
export class PluginLeftovers {
  readonly #options: LeftoverOptions;
  /** True if `portmap` has been used since boot, because its own chain stays; undefined if unknown. */
  #hasHostPorts: boolean | undefined;

  constructor(options: LeftoverOptions) {
    this.#options = options;
  }

  /** Removes the objects of a container. @returns their names. @throws SeineError */
  remove(container: ContainerOfNetwork): readonly string[] {
    return [...this.#removeChains(container), ...this.#removeInterface(container)];
  }

  #removeChains(container: ContainerOfNetwork): readonly string[] {
    if (this.#hasHostPorts === false) return [];
    const nftables = this.#options.open?.() ?? Nftables.open();
    try {
      const chain = hashedName('CNI-DN-', 28, container);
      const lists = families.map((family) => ({ family, rules: rulesOf(nftables, family) }));
      this.#hasHostPorts = lists.some(({ rules }) => rules !== undefined);
      const commands = lists.flatMap(({ family, rules = [] }) => removal(family, chain, rules));
      if (commands.length > 0) nftables.run(commands.join('\n'));
      return commands.length > 0 ? [`chain ${chain}`] : [];
    } finally {
      nftables.close();
    }
  }

  /** Removes the IFB interface through which the traffic of the container was shaped. */
  #removeInterface(container: ContainerOfNetwork): readonly string[] {
    const { socket } = this.#options;
    const name = hashedName('bwp', 15, container);
    const link = getLink(socket, name);
    if (link?.kind !== 'ifb') return [];
    const batch = new Batch();
    deleteLink(batch, link.index);
    socket.transact(batch);
    return [`interface ${name}`];
  }
}

interface JumpRule {
  readonly handle: number;
  readonly target: string;
}

/** Returns the jumps of `portmap`'s chain; undefined if there is no such chain. */
function rulesOf(nftables: Nftables, family: NftFamily): readonly JumpRule[] | undefined {
  try {
    return objectsIn(nftables.run(`list chain ${family} nat ${hostPortChain}`)).flatMap(jumpOf);
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.context['missing'] === true) return undefined;
    throw thrown;
  }
}

function jumpOf(object: unknown): JumpRule[] {
  const { rule } = object as { readonly rule?: { readonly handle?: unknown; readonly expr?: unknown } };
  if (rule === undefined || typeof rule.handle !== 'number' || !Array.isArray(rule.expr)) return [];
  for (const expression of rule.expr as readonly { readonly jump?: { readonly target?: unknown } }[]) {
    const target = expression.jump?.target;
    if (typeof target === 'string') return [{ handle: rule.handle, target }];
  }
  return [];
}

function removal(family: NftFamily, chain: string, rules: readonly JumpRule[]): readonly string[] {
  const mine = rules.filter(({ target }) => target === chain);
  if (mine.length === 0) return [];
  const name = `${family} nat ${nftName(chain)}`;
  return [
    ...mine.map(({ handle }) => `delete rule ${family} nat ${hostPortChain} handle ${handle}`),
    `flush chain ${name}`,
    `delete chain ${name}`,
  ];
}

function hashedName(prefix: string, length: number, { network, containerId }: ContainerOfNetwork): string {
  return `${prefix}${createHash('sha512').update(`${network}${containerId}`).digest('hex')}`.slice(0, length);
}
