import type { Family } from '../net/ip.ts';
import { serviceNextHop, tunnelCarriers } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment, ownCidrs } from './environment.ts';

/** One chain of the node's packet filter: where it hooks in, and its rules in the language of nft(8). */
export interface FirewallChain {
  readonly name: string;
  readonly hook: string;
  readonly rules: readonly string[];
}

/** What a node may be asked beside its environment. */
export interface FirewallOptions {
  /** Pods keep their addresses when they leave the cluster; somebody else translates or routes them. */
  readonly noSnat: boolean;
}

/**
 * The node's own packet filter, in a table of our own.
 *
 * What leaves the node for anywhere but the bridge leaves as the node: pods' addresses mean nothing outside. What the node
 * sends to the bridge must come from the gateway's address, or the answer takes another way back; and what it sent to a
 * Service whose endpoint is another node comes out of the bridge with an address that only this node knows. Tunnel packets
 * are not worth an entry in the node's connection tracker.
 *
 * The bridge drops tunnel packets that pods forge, but on the userspace data path it cannot see the port of a fragment. Here
 * fragments are whole again.
 */
export function compileFirewall(environment: NodeEnvironment, { noSnat }: FirewallOptions): readonly FirewallChain[] {
  const { gateway, tunnel } = environment;
  const families = familiesOf(environment);
  const masquerade = ownCidrs(environment).map(
    ({ family, text }) => `oifname != "${gateway.name}" ${keyword[family]} saddr ${text} masquerade fully-random`,
  );
  const ofGateway = (family: Family): string => {
    const texts = gateway.addresses.filter((ip) => ip.family === family).map(({ text }) => text);
    return texts.length === 1 ? texts.join('') : `{ ${texts.join(', ')} }`;
  };
  const fromNode = families.map(
    (family) => `oifname "${gateway.name}" ${keyword[family]} saddr != ${ofGateway(family)} fib saddr type local masquerade fully-random`,
  );
  const fromVirtual = families.map(
    (family) => `oifname != "${gateway.name}" ${keyword[family]} saddr ${serviceNextHop[family].text} masquerade`,
  );
  const carrier = tunnelCarriers[tunnel.type];
  const carried = carrier.protocol === 'udp' ? `udp dport ${tunnel.port}` : `meta l4proto ${carrier.ipProtocol}`;
  const forged = `iifname "${gateway.name}" ${carried} drop`;
  return [
    {
      name: 'postrouting',
      hook: 'type nat hook postrouting priority srcnat; policy accept;',
      rules: [...(noSnat ? [] : masquerade), ...fromVirtual, ...fromNode],
    },
    { name: 'prerouting-raw', hook: 'type filter hook prerouting priority raw; policy accept;', rules: [`${carried} notrack`] },
    { name: 'output-raw', hook: 'type filter hook output priority raw; policy accept;', rules: [`${carried} notrack`] },
    { name: 'input', hook: 'type filter hook input priority filter; policy accept;', rules: [forged] },
    {
      name: 'forward',
      hook: 'type filter hook forward priority filter; policy accept;',
      rules: [forged, `iifname "${gateway.name}" accept`, `oifname "${gateway.name}" accept`],
    },
  ];
}

const keyword: Readonly<Record<Family, string>> = { ipv4: 'ip', ipv6: 'ip6' };
