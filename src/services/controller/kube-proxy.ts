import { SeineError } from '../../base/errors/seine-error.ts';
import { errnoOf } from '../../netlink/errno.ts';
import { getLink } from '../../netlink/links.ts';
import type { LegacyIptables } from '../../netlink/nftables/legacy-iptables.ts';
import { type Nftables, objectsIn } from '../../netlink/nftables/nftables.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import { listeningSockets } from '../../netlink/sockets/listening-sockets.ts';

/** Port of kube-proxy's health check (`--healthz-bind-address`). Its answer is not used: any process may give it. */
const HEALTHZ_PORT = 10_256;
/**
 * Backlog of agents' sockets, which distinguishes them from a kube-proxy's (Go uses `net.core.somaxconn`), even of one that hangs and
 * cannot be queried: mistaking it for a kube-proxy would close node ports to external clients.
 */
export const AGENTS_BACKLOG = 211;
/** Interface of kube-proxy's mode ipvs, which has all cluster addresses. */
const IPVS_INTERFACE = 'kube-ipvs0';

/** Empty chains with which kube-proxy detects that rules were flushed: listing all its rules may take tens of thousands of lines. */
const canaries = [
  { family: 'ipv4', command: 'list chain ip mangle KUBE-PROXY-CANARY', program: 'iptables' },
  { family: 'ipv6', command: 'list chain ip6 mangle KUBE-PROXY-CANARY', program: 'ip6tables' },
] as const;
/** Chains of legacy iptables, by table. */
const legacyChains = [
  { table: 'mangle', chain: 'KUBE-PROXY-CANARY' },
  { table: 'nat', chain: 'KUBE-SERVICES' },
] as const;

/** Signs that only root can have created. */
export interface KubeProxySigns {
  /** Descriptions of kube-proxy's rules and interfaces, which may be remains of one that no longer runs. */
  readonly found: readonly string[];
}

export const noSigns: KubeProxySigns = { found: [] };

interface KubeProxyPlaces {
  readonly nftables: Pick<Nftables, 'run'>;
  /** Socket of protocol `route`. */
  readonly routeSocket: NetlinkSocket;
  /** Socket of protocol `socketDiagnosis`. */
  readonly diagnosisSocket: NetlinkSocket;
  readonly legacy: LegacyIptables;
  /** Reports whether this process listens on the port, whatever its backlog; false if omitted. */
  readonly isOwn?: (port: number) => boolean;
}

/**
 * Looks for a kube-proxy in the agent's network namespace, by signs that need root: otherwise a pod in the host network, running as another
 * user, could turn node ports off.
 */
export function detectKubeProxy({ nftables, routeSocket, diagnosisSocket, legacy, isOwn = () => false }: KubeProxyPlaces): KubeProxySigns {
  const tables = tablesIn(tryRun(nftables, 'list tables')).filter(({ name }) => name === 'kube-proxy');
  return {
    found: [
      ...tables.map(({ family }) => `nftables table ${family} kube-proxy`),
      ...canaries.filter(({ command }) => tryRun(nftables, command) !== '').map(({ program }) => `${program} chain KUBE-PROXY-CANARY`),
      ...canaries.flatMap(({ family, program }) => legacySigns(legacy, family, program)),
      ...(getLink(routeSocket, IPVS_INTERFACE) ? [`interface ${IPVS_INTERFACE}`] : []),
      ...(!isOwn(HEALTHZ_PORT) && rootListens(diagnosisSocket) ? [`a process of root listens on port ${HEALTHZ_PORT}`] : []),
    ],
  };
}

/** False on a kernel without sock_diag of TCP. */
function rootListens(socket: NetlinkSocket): boolean {
  try {
    return listeningSockets(socket, 'tcp', HEALTHZ_PORT).some(({ user, backlog }) => user === 0 && backlog !== AGENTS_BACKLOG);
  } catch (thrown) {
    if (['ENOENT', 'EOPNOTSUPP'].includes(errnoOf(thrown) ?? '')) return false;
    throw thrown;
  }
}

function legacySigns(legacy: LegacyIptables, family: 'ipv4' | 'ipv6', program: string): readonly string[] {
  const there = legacy.tables(family);
  return legacyChains
    .filter(({ table, chain }) => there.includes(table) && legacy.hasChain(family, table, chain))
    .map(({ chain }) => `${program}-legacy chain ${chain}`);
}

function tablesIn(json: string): { readonly family: unknown; readonly name: unknown }[] {
  if (json === '') return [];
  return objectsIn(json).flatMap(
    (object) => (object as { readonly table?: { readonly family: unknown; readonly name: unknown } }).table ?? [],
  );
}

function tryRun(nftables: Pick<Nftables, 'run'>, command: string): string {
  try {
    return nftables.run(command);
  } catch (thrown) {
    if (SeineError.from(thrown, command).code === 'REFUSED') return ''; // there is no such object
    throw thrown;
  }
}
