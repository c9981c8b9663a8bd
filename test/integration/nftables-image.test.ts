import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { firewallBody } from '../../src/dataplane/compile/compile-firewall.ts';
import { hostPortFirewall } from '../../src/pods/host-ports/host-port-firewall.ts';
import { externalFirewall, serviceFirewall } from '../../src/services/controller/service-firewall.ts';
import { exampleNode } from '../support/example-node.ts';
import { withNamespaces } from './netlink-fixture.ts';

/*
 * The agent's image has neither /etc/protocols nor /etc/services, from which nft reads names. A rule with such a name is rejected there,
 * and with it the whole table.
 */

const families = ['ipv4', 'ipv6'] as const;
const gateway = exampleNode.gateway.name;
const masked = 'for file in protocols services; do [ ! -e /etc/$file ] || mount --bind /dev/null /etc/$file || exit; done; exec nft -f -';

it.each([
  ['seine', firewallBody(exampleNode, { dataPath: 'netdev', noSnat: false })],
  ['seine', firewallBody(exampleNode, { dataPath: 'system', noSnat: false })],
  ['seine-services', serviceFirewall({ families, gateway })],
  ['seine-external', externalFirewall({ families, gateway })],
  ['seine-host-ports', hostPortFirewall({ families, gateway })],
])('the table %s needs no names of protocols or services', (name, body) =>
  withNamespaces(1, (lab) => {
    const words = ['netns', 'exec', lab.name, 'unshare', '--mount', 'sh', '-c', masked];
    expect(execFileSync('ip', words, { encoding: 'utf8', input: `table inet ${name} {\n${body}\n}\n` })).toBe('');
  }),
);
