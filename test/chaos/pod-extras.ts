/** Further settings of a pod, by its name, so that no draw depends on it. */
interface PodExtras {
  /** Host port on each address of its node, mapped to port 80 of the pod. No other pod has it. */
  readonly hostPort?: number;
  /** Limit for each direction, as the kubelet reads it. */
  readonly bandwidth?: string;
}

const hostPorts: readonly string[] = ['shop/web-1', 'shop/web-2', 'shop/come-1', 'depot/come-1', 'shop/come-3', 'depot/come-3'];
const firstHostPort = 18_080;
/** More than streams and probes need. */
const limit = '200M';

export function extrasOf({ namespace, name }: { readonly namespace: string; readonly name: string }): PodExtras {
  const at = hostPorts.indexOf(`${namespace}/${name}`);
  return { ...(at >= 0 && { hostPort: firstHostPort + at }), ...(/^come-[23]$/.test(name) && { bandwidth: limit }) };
}

/** Annotations of a pod. */
export function bandwidthOf({ bandwidth }: PodExtras): Readonly<Record<string, string>> {
  if (bandwidth === undefined) return {};
  return { 'kubernetes.io/ingress-bandwidth': bandwidth, 'kubernetes.io/egress-bandwidth': bandwidth };
}
