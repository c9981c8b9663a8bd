import type { Cidr, Family, Ip } from '../../base/net/ip.ts';

/** What of Kubernetes' Services this proxy does; names and meaning are those of Antrea's `antreaProxy`. */
export interface ProxyConfig {
  /** Everything that kube-proxy does. Otherwise cluster addresses only, and kube-proxy is left the rest. */
  readonly proxyAll: boolean;
  /** Services left to another proxy, as `namespace/name` or as one of their cluster addresses in canonical text. */
  readonly skipServices: ReadonlySet<string>;
  /** Addresses of load balancers are served in the cluster; otherwise packets to them go out to the load balancer. */
  readonly proxyLoadBalancerIps: boolean;
  /** Services with this value of the label `service.kubernetes.io/service-proxy-name` are ours; `''`: those without the label. */
  readonly serviceProxyName: string;
  /** `spec.externalIPs` outside these are refused: who may write Services could take any address from all pods. */
  readonly externalIpRanges: readonly Cidr[];
  /** Buckets of groups translate, where they can: without a flow for each endpoint. */
  readonly bucketTranslation: boolean;
}

/** The node that a Service is served on. */
export interface ProxyNode {
  readonly name: string;
  /** Label `topology.kubernetes.io/zone`. */
  readonly zone?: string;
  readonly families: readonly Family[];
  /** The data path tells SCTP's ports apart; Open vSwitch's userspace one does not. */
  readonly sctp: boolean;
  /** The node's own addresses, as Kubernetes knows them. What the node sends to a Service comes from the gateway's. */
  readonly addresses: readonly Ip[];
  /** First address of each pod CIDR, at most one of each family. */
  readonly gateway: readonly Ip[];
}
