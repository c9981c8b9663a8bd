import type { ManyServices } from './cluster-fill.ts';

/**
 * A rule set of the shape kube-proxy's nftables mode gives Services of one port: a map from address, protocol and port to the chain
 * of a Service, which picks one of the chains of its endpoints. Source: its documentation of chains and maps, in `pkg/proxy/nftables`.
 */
export function kubeProxyShaped({ services, endpoints }: ManyServices): string {
  const chains: string[] = [];
  const elements: string[] = [];
  for (let service = 0; service < services; service++) {
    const clusterIp = `10.${96 + (service >> 16)}.${(service >> 8) & 0xff}.${service & 0xff}`;
    const targets: string[] = [];
    for (let each = 0; each < endpoints; each++) {
      const number = service * endpoints + each;
      const address = `100.${64 + (number >> 16)}.${(number >> 8) & 0xff}.${number & 0xff}`;
      const name = `endpoint-${service}-${each}`;
      chains.push(`chain ${name} { ip saddr ${address} jump mark-for-masquerade; meta l4proto tcp dnat to ${address}:8080; }`);
      targets.push(`${each} : goto ${name}`);
    }
    chains.push(
      `chain service-${service} { ip daddr ${clusterIp} tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade;` +
        ` numgen random mod ${endpoints} vmap { ${targets.join(', ')} }; }`,
    );
    elements.push(`${clusterIp} . tcp . 80 : goto service-${service}`);
  }
  return [
    'table ip kube-proxy-shaped {',
    'chain mark-for-masquerade { meta mark set mark or 0x4000; }',
    ...chains,
    `map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { ${elements.join(', ')} } }`,
    'chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }',
    'chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }',
    'chain nat-output { type nat hook output priority -100; policy accept; jump services; }',
    '}',
    '',
  ].join('\n');
}
