import { expect, it } from 'vitest';
import { cidrContains, parseCidr, parseIp } from './ip.ts';
import { containedInMany } from './network-index.ts';

it('contains an address exactly if one of the networks does', () => {
  const texts = ['0.0.0.0/0', '10.0.0.0/8', '10.1.2.3/32', '224.0.0.0/4', '::/0', 'fd00::/8', '::1/128'];
  const asked = ['0.0.0.0', '10.1.2.3', '11.0.0.0', '239.255.255.255', '240.0.0.0', '::', '::1', 'fd00::1', 'fe80::1'].map(parseIp);
  for (let which = 0; which < 2 ** texts.length; which++) {
    const networks = texts.filter((_, at) => (which >> at) & 1).map(parseCidr);
    const isIn = containedInMany(networks);
    for (const ip of asked) expect(isIn(ip)).toBe(networks.some((network) => cidrContains(network, ip)));
  }
});
