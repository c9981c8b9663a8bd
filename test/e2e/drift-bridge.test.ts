import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DriftLab, driftTests, type ForeignChange } from '../support/drift-lab.ts';

/** Flows, groups, meters and other state of OVS outside its database. */
let node: DriftLab;
let group: string;
let meter: string;
let web: string;
let sticky: string;

beforeAll(async () => {
  const metadata = { name: 'slow', labels: { app: 'slow' }, annotations: { 'kubernetes.io/egress-bandwidth': '2M' } };
  const spec = { nodeSelector: { 'kubernetes.io/hostname': 'node-1' }, containers: [{ name: 'responder', image: 'responder' }] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
  const choosy = { selector: { app: 'web' }, ports: [{ port: 80 }], sessionAffinity: 'ClientIP' };
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'sticky' }, spec: choosy };
  node = await DriftLab.start([
    { collection: '/api/v1/namespaces/demo/pods', object: pod },
    { collection: '/api/v1/namespaces/demo/services', object: service },
  ]);
  const made = await node.lab.api.send({ method: 'GET', path: '/api/v1/namespaces/demo/services/sticky' }, AbortSignal.timeout(10_000));
  sticky = (made as { readonly spec: { readonly clusterIP: string } }).spec.clusterIP;
  group = /group_id=(\d+)/.exec(await groups())?.[1] ?? '';
  meter = /meter=(\d+)/.exec(await meters())?.[1] ?? '';
  web = String((await node.lab.ofPorts(1))[await node.hostInterface('web-1')]);
});
afterAll(async () => {
  await node?.lab.remove();
});

const bridge = (verb: string, what: string) => () => node.ofctl(verb, 'br-int', what);
const textsOf = async (which: (text: string) => boolean) =>
  (await node.lab.flows(1))
    .map(({ text }) => text)
    .filter(which)
    .join('\n');
const flows = () => textsOf((text) => !text.startsWith('cookie=0x1ff'));
/** With learned flows, except those that change with clients. */
const all = () => textsOf((text) => !/^cookie=0x1ff\w+, table=24,/.test(text));
const learned = () => textsOf((text) => /^cookie=0x1ff\w+, table=24,/.test(text));
const groups = () => node.lab.groups(1);
/** Sorted: OVS lists meters by a hash. */
const meters = async () => {
  const listed = (await node.ofctl('dump-meters', 'br-int')).split('\n').slice(1).join(' ');
  return listed
    .split(/(?=meter=)/)
    .map((each) => each.trim())
    .toSorted()
    .join('\n');
};
const foreignChange = (what: string, change: () => Promise<unknown>, ...observers: readonly (() => Promise<string>)[]): ForeignChange => ({
  what,
  change,
  observed: async () => (await Promise.all(observers.map((look) => look()))).join('\n'),
  part: 'bridge',
});
const whole = (...of: Parameters<typeof foreignChange>): ForeignChange => ({ ...foreignChange(...of), whileStopped: 'never' });

driftTests('flows', () => node, [
  whole('all deleted', () => node.ofctl('del-flows', 'br-int'), flows),
  foreignChange('one deleted', () => node.ofctl('del-flows', 'br-int', `table=0,in_port=${web}`), flows),
  foreignChange('actions changed', bridge('mod-flows', 'table=14,ip,actions=drop'), flows),
  foreignChange(
    'one that ends by itself',
    () => node.ofctl('add-flow', 'br-int', 'table=0,priority=0,idle_timeout=600,actions=drop'),
    flows,
  ),
  foreignChange('a foreign one', bridge('add-flow', 'table=0,priority=65000,ip,actions=drop'), flows),
]);

driftTests('learned flows', () => node, [
  foreignChange('one with the cookie alone', bridge('add-flow', 'cookie=0xff0000000000,table=0,priority=65000,ip,actions=drop'), flows),
  foreignChange('one where none is learned', bridge('add-flow', 'cookie=0x1ff0000000000,table=14,priority=65000,ip,actions=drop'), all),
]);

describe('a deleted learned flow', () => {
  it.each(['runs', 'is dead'])('is learned again with the client’s next packet, while the agent %s', async (life) => {
    if (life === 'is dead') await node.lab.agent(1, 'kill');
    const asked = { timeout: 20_000 };
    const answer = async () => (await node.lab.reach(node.lab.pod('client-1'), sticky)).is;
    await expect.poll(answer, asked).toBe('OK');
    expect(await learned()).not.toBe('');
    await node.ofctl('del-flows', 'br-int', 'cookie=0xff0000000000/0xff0000000000,table=24');
    expect(await learned()).toBe('');
    await expect.poll(answer, asked).toBe('OK');
    expect(await learned()).not.toBe('');
    if (life === 'runs') return;
    await node.lab.agent(1, 'start');
    await node.lab.untilReady(1);
    expect(await learned()).not.toBe('');
  });
});

driftTests('groups', () => node, [
  whole('all deleted', () => node.ofctl('del-groups', 'br-int'), groups, flows),
  foreignChange('changed', () => node.ofctl('mod-group', 'br-int', `group_id=${group},type=select,bucket=actions=drop`), groups),
  foreignChange('a foreign one', bridge('add-group', 'group_id=4000000,type=all,bucket=actions=drop'), groups),
]);

driftTests('meters', () => node, [
  whole('all deleted', () => node.ofctl('del-meters', 'br-int'), meters, flows),
  foreignChange('changed', () => node.ofctl('mod-meter', 'br-int', `meter=${meter},kbps,burst,band=type=drop,rate=1,burst_size=1`), meters),
  foreignChange('a foreign one', bridge('add-meter', 'meter=4000,kbps,band=type=drop,rate=1'), meters),
]);

const ports = async () =>
  (await node.ofctl('show', 'br-int'))
    .split('\n')
    .filter((line) => /^ \S+\(|config:/.test(line))
    .join('\n')
    .replaceAll(/addr:\S+/g, '');
const fragments = () => node.ofctl('get-frags', 'br-int');
driftTests('openflow settings', () => node, [
  foreignChange('a pod’s port takes nothing', () => node.ofctl('mod-port', 'br-int', web, 'no-forward'), ports),
  foreignChange('the tunnel’s port gives nothing', () => node.ofctl('mod-port', 'br-int', '32768', 'no-receive'), ports),
  foreignChange('the gateway’s port asks nothing', () => node.ofctl('mod-port', 'br-int', '32769', 'no-packet-in'), ports),
  foreignChange('fragments dropped', () => node.ofctl('set-frags', 'br-int', 'drop'), fragments),
]);
