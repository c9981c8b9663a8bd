import { execFileSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import type { AttachedPod, PodAttachment } from '../../src/pods/ipam/attachment.ts';
import { newPod, patience } from '../contract/pod-network.ts';
import { becomeNode, type TestNode } from '../support/node-wiring.ts';
import { randomName } from './netlink-fixture.ts';

/* With `repairPods: true`, missing objects of Seine inside a pod are restored; additions of others stay. */

let node: TestNode;
let name: string;
let pod: PodAttachment;
let attached: AttachedPod;
beforeAll(async () => {
  node = await becomeNode(', repairPods: true');
});
afterAll(() => node.close());
beforeEach(async () => {
  name = randomName('rep');
  createNamedNamespace(name).close();
  pod = newPod(`/run/netns/${name}`, { routes: [{ destination: parseCidr('10.77.0.0/16'), gateway: parseIp('10.10.3.253') }] });
  attached = await node.network.attach(pod, patience());
});
afterEach(async () => {
  await node.network.detach(pod, patience());
  deleteNamedNamespace(name);
});

const inPod = (...words: readonly string[]): string => execFileSync('ip', ['-n', name, ...words], { encoding: 'utf8' });
const check = () => node.network.check(pod, attached, patience());

it.each([
  ['an address', () => inPod('address', 'del', `${pod.addresses[0]?.ip.text}/22`, 'dev', 'eth0')],
  ['all addresses', () => inPod('address', 'flush', 'dev', 'eth0')],
  ['the default route', () => inPod('route', 'del', 'default')],
  ['the default route of IPv6', () => inPod('-6', 'route', 'del', 'default')],
  ['another plugin’s route', () => inPod('route', 'del', '10.77.0.0/16')],
  [
    'its name',
    () => {
      inPod('link', 'set', 'eth0', 'down');
      inPod('link', 'set', 'eth0', 'name', 'other0');
    },
  ],
])('gets back %s', async (_, inject) => {
  inPod('address', 'add', '10.99.0.1/32', 'dev', 'eth0');
  inject();
  expect(await check()).not.toEqual([]);
  node.plane.nodeState.recheck();
  await expect.poll(check, { timeout: 10_000 }).toEqual([]);
});

it('gets another pair for one whose end was moved away', async () => {
  const other = randomName('rep');
  createNamedNamespace(other).close();
  try {
    const reported = node.changed.length;
    inPod('link', 'set', 'eth0', 'netns', other);
    node.plane.nodeState.recheck();
    await expect.poll(() => node.changed.length, { timeout: 10_000 }).toBeGreaterThan(reported);
    attached = node.changed.at(-1)?.attached ?? attached;
    await expect.poll(check, { timeout: 10_000 }).toEqual([]);
    expect(execFileSync('ip', ['-n', other, '-br', 'link'], { encoding: 'utf8' })).not.toContain('eth0');
  } finally {
    deleteNamedNamespace(other);
  }
});

it('gets back the routing table of a second network, and nothing of the first', async () => {
  const second = newPod(pod.netns, { containerId: pod.containerId, ifName: 'net1', network: 'second' });
  const other = await node.network.attach(second, patience());
  try {
    const [table = 0] = Object.values(other.routeTables ?? {});
    const before = [inPod('route', 'show', 'table', 'all'), inPod('-6', 'route', 'show', 'table', String(table)), inPod('rule', 'show')];
    inPod('route', 'flush', 'table', String(table));
    inPod('-6', 'route', 'del', 'default', 'table', String(table));
    node.plane.nodeState.recheck();
    const now = () => [inPod('route', 'show', 'table', 'all'), inPod('-6', 'route', 'show', 'table', String(table)), inPod('rule', 'show')];
    expect(now()).not.toEqual(before);
    await expect.poll(now, { timeout: 10_000 }).toEqual(before);
    expect(await node.network.check(second, other, patience())).toEqual([]);
    expect(await check()).toEqual([]);
  } finally {
    await node.network.detach(second, patience());
  }
});

it('keeps additions of others', async () => {
  inPod('address', 'add', '10.99.0.1/32', 'dev', 'eth0');
  inPod('route', 'add', '10.98.0.0/16', 'dev', 'eth0');
  inPod('link', 'set', 'eth0', 'mtu', '1280');
  const rounds = node.plane.nodeState.reconcilers.links;
  await rounds.confirmed(patience());
  expect(node.inside.sentences).toEqual([]);
  expect(inPod('address', 'show', 'dev', 'eth0')).toContain('10.99.0.1/32');
  expect(inPod('route', 'show')).toContain('10.98.0.0/16');
  expect(inPod('link', 'show', 'eth0')).toContain('mtu 1280');
});
