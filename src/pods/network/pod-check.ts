import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { PortWatch } from '../../dataplane/targets/switch/port-watch.ts';
import type { Link } from '../../netlink/links.ts';
import { type PodInterfaceSetUp, readPodSetUp } from '../../netlink/pod-interfaces/pod-interface.ts';
import { mainTable } from '../../netlink/routing/routes.ts';
import type { AttachedPod, PodAttachment } from '../ipam/attachment.ts';

/** Compares an owner's flows and meters with OVS; returns a sentence for each that is missing or changed. */
export type FlowCheck = (owner: Owner, signal: AbortSignal) => Promise<readonly string[]>;

interface PodToCheck {
  readonly want: PodAttachment;
  readonly attached: AttachedPod;
  /** Host interface, if it exists. */
  readonly link: Link | undefined;
  readonly known: { readonly owner: Owner; readonly ofPort: number } | undefined;
  readonly ports: PortWatch;
  readonly flowCheck: FlowCheck;
}

/** Returns one sentence for each difference from the original setup. Settings that later plugins of a chain may change are not checked. */
export async function describeDifferences(pod: PodToCheck, signal: AbortSignal): Promise<readonly string[]> {
  const { want, attached, link, known } = pod;
  if (!known) return [`container ${want.containerId} is not attached to network ${want.network}`];
  // OVS dumps the flows while the pod is read.
  const flows = pod.flowCheck(known.owner, signal);
  flows.catch(() => undefined); // awaited below
  const differences = [...hostDifferences(attached, link), ...podDifferences(want, attached), ...portDifferences(pod, known.ofPort)];
  return [...differences, ...(await flows)];
}

function hostDifferences({ hostIfName }: AttachedPod, link: Link | undefined): string[] {
  if (!link) return [`host interface ${hostIfName} is missing`];
  return link.state === 'up' ? [] : [`host interface ${hostIfName} is down`];
}

function podDifferences(want: PodAttachment, attached: AttachedPod): string[] {
  let state: PodInterfaceSetUp | undefined;
  try {
    state = readPodSetUp(want.netns, want.ifName, familiesOf(want));
  } catch (thrown) {
    return [`namespace ${want.netns}: ${SeineError.from(thrown, 'read').message}`];
  }
  if (!state) return [`interface ${want.ifName} is missing in ${want.netns}`];
  const { link, addresses, routes } = state;
  const has = (text: string): boolean => addresses.some(({ address, prefixLength }) => `${address.text}/${prefixLength}` === text);
  const { routeTables = {} } = attached;
  const routed = ({ family, text }: Ip): boolean =>
    routes.some(
      ({ destination, gateway, table }) =>
        destination.prefixLength === 0 && gateway?.text === text && table === (routeTables[family] ?? mainTable),
    );
  return [
    ...(link.state === 'up' ? [] : [`interface ${want.ifName} is down`]),
    ...(link.mac === want.mac ? [] : [`interface ${want.ifName} has MAC ${link.mac} and not ${want.mac}`]),
    ...(link.mtu <= attached.mtu ? [] : [`interface ${want.ifName} has MTU ${link.mtu} and not ${attached.mtu}`]),
    ...want.addresses
      .map(({ ip, prefixLength }) => `${ip.text}/${prefixLength}`)
      .filter((text) => !has(text))
      .map((text) => `address ${text} is missing on ${want.ifName}`),
    ...want.addresses
      .filter(({ gateway }) => !routed(gateway))
      .map(({ gateway }) => `default route by ${gateway.text} is missing on ${want.ifName}`),
    ...(want.routes ?? [])
      .filter(({ destination }) => !routes.some((route) => route.destination.text === destination.text))
      .map(({ destination }) => `route to ${destination.text} is missing on ${want.ifName}`),
  ];
}

/** Families to check. Others are skipped, because each needs two dumps of the kernel. */
function familiesOf({ addresses, routes = [] }: PodAttachment): ReadonlySet<Family> {
  return new Set([...addresses.map(({ ip }) => ip.family), ...routes.map(({ destination }) => destination.family)]);
}

function portDifferences({ attached: { hostIfName }, ports }: PodToCheck, ofPort: number): string[] {
  if (!ports.isKnown(hostIfName)) return [`port ${hostIfName} is missing on the bridge`];
  const actual = ports.ofPort(hostIfName);
  return actual === ofPort ? [] : [`port ${hostIfName} has OpenFlow number ${actual ?? 'none'} and not ${ofPort}`];
}
