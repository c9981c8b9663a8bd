import { createHash } from 'node:crypto';
import { SeineError } from '../../base/errors/seine-error.ts';
import { deleteLink, getLink } from '../../netlink/links.ts';
import { Batch } from '../../netlink/message.ts';
import { Nftables, type NftFamily, nftName, objectsIn } from '../../netlink/nftables/nftables.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** The chain from which `portmap` leads to those of its containers, in the table that iptables keeps in nftables. */
const hostPortChain = 'CNI-HOSTPORT-DNAT';
const families: readonly NftFamily[] = ['ip', 'ip6'];

/** Whose attachment it was. */
interface ContainerOfNetwork {
  readonly network: string;
  readonly containerId: string;
}

interface LeftoverOptions {
  /** Of protocol `route`, in the node's namespace. */
  readonly socket: NetlinkSocket;
  /** Left out: the caller's own namespace. */
  readonly open?: () => Nftables;
}

/**
 * What the plugins `portmap` and `bandwidth` have made for a container, by the names that they compute. Runtimes DEL by the list of the day: of
 * pods that came while these were in it, nobody else takes it away.
 *
 * Names: `CNI-DN-` or `bwp` and SHA-512 of network and container ID, cut to 28 and 15 characters (containernetworking/plugins,
 * `pkg/utils/utils.go`).
 */
export class PluginLeftovers {
  readonly #options: LeftoverOptions;
  /** Whether `portmap` has ever been at work here since the machine started: its own chain stays for ever. */
  #hasHostPorts: boolean | undefined;

  constructor(options: LeftoverOptions) {
    this.#options = options;
  }

  /** @returns what was removed, by name. @throws SeineError */
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

  /** What a container sends was led through it. */
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

/** The jumps of `portmap`'s chain; undefined if there is none. */
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
