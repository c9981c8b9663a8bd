import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { StandingPair } from '../../src/dataplane/desired/pod-link.ts';
import { StandingLinks } from '../../src/dataplane/targets/links/pre-plugged-links.ts';
import { LinkRemover } from '../../src/netlink/link-remover.ts';
import { getLink } from '../../src/netlink/links.ts';
import { PortsNamespace } from '../../src/netlink/pod-interfaces/ports-namespace.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { TestPorts } from '../support/ports-namespace.ts';

/** The alias with the owner of a pre-plugged port is on its far end: the node's end has none, and a foreign one is removed. */
const number = 60_000 + (process.pid % 5_000);
const pair: StandingPair = { hostName: `sp-${number}`, farName: `far-${number}`, mtu: 1400, hostEnd: 'layer2Only', checksumOffload: 'off' };
const on = new TestPorts();
let host: { readonly socket: NetlinkSocket; readonly remover: LinkRemover };
let ports: PortsNamespace;
let standing: StandingLinks;

beforeAll(() => {
  host = { socket: NetlinkSocket.open(), remover: LinkRemover.open() };
  ports = PortsNamespace.open(on.path);
  standing = new StandingLinks(host, () => ports);
  standing.createPair(pair);
});

afterAll(async () => {
  execFileSync('ip', ['link', 'delete', pair.hostName]);
  ports.close();
  await host.remover.close();
  host.socket.close();
  on.remove();
});

it('removes a foreign alias from the node’s end of a pre-plugged port', () => {
  const differences = () => {
    const link = getLink(host.socket, pair.hostName);
    if (link === undefined) throw new Error('the pair is gone');
    return standing.idleDifferences(pair, link, standing.farOf(pair.farName, link)?.link);
  };
  expect(differences()).toEqual([]);
  execFileSync('ip', ['link', 'set', pair.hostName, 'alias', 'foreign']);
  expect(differences()).toEqual([`${pair.hostName} has another alias`]);
  expect(standing.putIdle(pair, () => {})).toBe(true);
  expect(differences()).toEqual([]);
});
