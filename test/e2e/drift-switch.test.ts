import { afterAll, beforeAll } from 'vitest';
import { DriftLab, driftTests, type ForeignChange } from '../support/drift-lab.ts';

/** Rows of OVSDB. */
let node: DriftLab;
let web: string;

beforeAll(async () => {
  node = await DriftLab.start();
  web = await node.hostInterface('web-1');
});
afterAll(async () => {
  await node?.lab.remove();
});

const foreignChange = (what: string, looked: ForeignChange['observed'], ...change: readonly string[]): ForeignChange => ({
  what,
  change: () => node.vsctl(...change),
  observed: looked,
  part: 'switch',
});

const csv = async (table: string, columns: string) => {
  const rows = await node.vsctl('--format=csv', `--columns=${columns}`, 'list', table);
  // The number of a pod's port is known only from its row.
  return rows
    .replaceAll(/\b(?:327[89]|328)\d+\b/g, 'pod')
    .split('\n')
    .toSorted()
    .join('\n');
};
const bridge = () => csv('Bridge', 'name,datapath_type,fail_mode,protocols,other_config,external_ids,controller,stp_enable,rstp_enable');
const tables = () => csv('Flow_Table', 'name,flow_limit,overflow_policy');
const interfaces = () =>
  csv(
    'Interface',
    'name,type,ofport,ofport_request,options,mac,mtu_request,admin_state,ingress_policing_rate,ingress_policing_burst,ingress_policing_kpkts_rate',
  );
const ports = async () => (await interfaces()) + (await csv('Port', 'name,external_ids,qos'));
const set = (what: string, ...change: readonly string[]) => foreignChange(what, bridge, 'set', 'Bridge', 'br-int', ...change);

driftTests('bridge row', () => node, [
  set('fails open', 'fail_mode=standalone'),
  set('another data path', 'datapath_type=system'),
  set('no OpenFlow 1.5', 'protocols=[OpenFlow10]'),
  set('in-band control', 'other_config:disable-in-band=false'),
]);
driftTests('bridge row', () => node, [
  set('without our mark', 'external_ids={}'),
  set('spanning tree', 'stp_enable=true'),
  set('rapid spanning tree', 'rstp_enable=true'),
]);
driftTests('bridge row', () => node, [
  foreignChange('a controller of its own', bridge, 'set-controller', 'br-int', 'tcp:192.0.2.9:6653'),
  {
    ...foreignChange('a table that holds one flow', tables),
    change: async () => {
      const [table] = (await node.vsctl('--bare', '--columns=_uuid', 'find', 'Flow_Table', 'name=route')).split('\n');
      await node.vsctl('set', 'Flow_Table', table ?? '', 'flow_limit=1', 'overflow_policy=evict');
    },
  },
  foreignChange('a table’s name', tables, 'clear', 'Bridge', 'br-int', 'flow_tables'),
  { ...foreignChange('deleted', async () => (await bridge()) + (await ports()), 'del-br', 'br-int'), whileStopped: 'alone' },
]);
const pod = (what: string, table: string, ...change: readonly string[]): ForeignChange => ({
  ...foreignChange(what, ports),
  change: () => node.vsctl('set', table, web, ...change),
});
driftTests('port rows', () => node, [
  { ...foreignChange('a pod’s deleted', ports), change: () => node.vsctl('del-port', 'br-int', web), whileStopped: 'never' },
  pod('a pod’s external IDs', 'Port', 'external_ids:container-id=other'),
  pod('a pod’s mark removed', 'Port', 'external_ids={}'),
]);
driftTests('port rows', () => node, [
  pod('a pod’s number', 'Interface', 'ofport_request=4711'),
  pod('a pod’s type', 'Interface', 'type=internal'),
  pod('a pod’s packets limited', 'Interface', 'ingress_policing_rate=1', 'ingress_policing_burst=1'),
  {
    ...foreignChange('a pod’s queues', ports),
    change: () =>
      node.vsctl('set', 'Port', web, 'qos=@q', '--', '--id=@q', 'create', 'QoS', 'type=linux-htb', 'other-config:max-rate=1000'),
  },
]);
driftTests('port rows', () => node, [
  foreignChange('the gateway’s MTU', ports, 'set', 'Interface', 'antrea-gw0', 'mtu_request=600'),
  foreignChange('the gateway’s MAC', ports, 'set', 'Interface', 'antrea-gw0', 'mac="0e:00:00:00:99:99"'),
  foreignChange('the gateway’s type', ports, 'set', 'Interface', 'antrea-gw0', 'type=dummy'),
  { ...foreignChange('the gateway’s deleted', ports, 'del-port', 'br-int', 'antrea-gw0'), whileStopped: 'never' },
]);
driftTests('port rows', () => node, [
  foreignChange('the tunnel’s options', ports, 'set', 'Interface', 'antrea-tun0', 'options:remote_ip=192.0.2.1'),
  foreignChange('the tunnel’s type', ports, 'set', 'Interface', 'antrea-tun0', 'type=vxlan'),
  { ...foreignChange('the tunnel’s deleted', ports, 'del-port', 'br-int', 'antrea-tun0'), whileStopped: 'never' },
]);
