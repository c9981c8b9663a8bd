import type { Cidr, Family, Ip } from '../../base/net/ip.ts';

/** Features of Kubernetes Services that this proxy provides; names and meaning are those of Antrea's `antreaProxy`. */
export interface ProxyConfig {
  /** True: everything that kube-proxy does. False: only cluster addresses, and kube-proxy does the rest. */
  readonly proxyAll: boolean;
  /** Services left to another proxy, as `namespace/name` or as one of their cluster addresses in canonical text. */
  readonly skipServices: ReadonlySet<string>;
  /** True if addresses of load balancers are served in the cluster; otherwise packets to them go out to the load balancer. */
  readonly proxyLoadBalancerIps: boolean;
  /** Value of the label `service.kubernetes.io/service-proxy-name` of Services that this proxy serves; `''`: those without the label. */
  readonly serviceProxyName: string;
  /** Ranges of accepted `spec.externalIPs`: a user who may write Services could otherwise take any address from all pods. */
  readonly externalIpRanges: readonly Cidr[];
  /** True if buckets of groups translate where possible: without a flow for each endpoint. */
  readonly bucketTranslation: boolean;
}

/** Node on which a Service is served. */
export interface ProxyNode {
  readonly name: string;
  /** Label `topology.kubernetes.io/zone`. */
  readonly zone?: string;
  readonly families: readonly Family[];
  /** True if the data path distinguishes SCTP ports; Open vSwitch's userspace data path does not. */
  readonly sctp: boolean;
  /** Addresses of the node in Kubernetes. The node's own traffic to a Service comes from the gateway's. */
  readonly addresses: readonly Ip[];
  /** First address of each pod CIDR, at most one of each family. */
  readonly gateway: readonly Ip[];
}
