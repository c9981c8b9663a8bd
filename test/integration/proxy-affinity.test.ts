import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AffinityKeeper } from '../../src/agent/proxy/affinity-keeper.ts';
import { encodeBridgeEntries } from '../../src/datapath/bridge-entry.ts';
import { BridgeTarget } from '../../src/datapath/bridge-target.ts';
import { silentLog } from '../../src/log/log.ts';
import { parseIp } from '../../src/net/ip.ts';
import { OpenFlowConnection } from '../../src/openflow/connection.ts';
import { isLearned, type Owner, ownerOf } from '../../src/pipeline/cookie.ts';
import { reg } from '../../src/pipeline/fields.ts';
import { goto, load } from '../../src/pipeline/flow.ts';
import { tables } from '../../src/pipeline/tables.ts';
import { compileService } from '../../src/proxy/compile-service.ts';
import type { Endpoint, ServiceIntent } from '../../src/proxy/service-intent.ts';
import { nothing } from '../../src/wanted/wanted.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const [first, second] = [
  { ip: parseIp('10.10.0.1'), port: 8080 },
  { ip: parseIp('10.10.0.2'), port: 8080 },
];

function intent(clusterIp: string, affinitySeconds: number, ...cluster: readonly Endpoint[]): ServiceIntent {
  return {
    name: 'http/ipv4',
    family: 'ipv4',
    transport: 'tcp',
    port: 80,
    addresses: [{ kind: 'cluster', ip: parseIp(clusterIp), port: 80 }],
    internalPolicy: 'Cluster',
    externalPolicy: 'Cluster',
    affinitySeconds,
    sourceRanges: [],
    cluster,
    local: [],
    anyEndpoint: true,
    objections: [],
  };
}

describe('learned choices of endpoints', () => {
  let ovs: TestSwitch;
  let bridge: OpenFlowConnection;
  const stop = new AbortController();
  const [web, other] = [ownerOf('service', 'default/web:http/ipv4'), ownerOf('service', 'default/other:http/ipv4')];

  beforeAll(async () => {
    ovs = startSwitch('--enable-dummy');
    const port = ['--', 'add-port', 'br-int', 'p1', '--', 'set', 'Interface', 'p1', 'type=dummy', 'ofport_request=1'];
    ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...port);
    bridge = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void bridge.run(stop.signal);
    await bridge.untilUp(stop.signal);
  });
  afterAll(async () => {
    stop.abort();
    await ovs.stop();
  });

  /** The Service on the bridge, with one endpoint at a time, so that who gets which is known. */
  async function serve(owner: Owner, groupId: number, what: ServiceIntent): Promise<void> {
    const wanted = compileService(what, { owner, node: { addresses: [], gateway: [] }, groupId: () => groupId });
    const classify = {
      table: 'classify',
      priority: 1,
      match: { payload: 'ipv4' },
      steps: [load(reg.serviceState('choose')), goto('balance')],
    } as const;
    const put = new Map([
      ...encodeBridgeEntries(owner, wanted),
      ...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: [classify] }),
    ]);
    await new BridgeTarget(bridge).apply({ put, remove: new Set() }, stop.signal);
  }

  function connect(from: string, to: string): void {
    const packet = `in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=${from},dst=${to},proto=6,tos=0,ttl=64,frag=no),tcp(src=40000,dst=80),tcp_flags(syn)`;
    ovs.exec('ovs-appctl', 'netdev-dummy/receive', 'p1', packet);
  }

  /** Clients that are remembered, in order. */
  function remembered(): string[] {
    const dump = ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${tables.affinity.id}`);
    return [...dump.matchAll(/nw_src=([0-9.]+)/g)].map(([, client = '']) => client).toSorted();
  }

  it('are taken away with their endpoint, and no others; all with the Service; long ones when nobody has used them', async () => {
    const time = { nowMs: 0 };
    const keeper = new AffinityKeeper({ bridge, log: silentLog, signal: stop.signal, nowMs: () => time.nowMs });
    const both = intent('10.96.0.10', 80_000, first, second);
    const apart = intent('10.96.0.11', 600, first);
    await serve(web, 7, intent('10.96.0.10', 80_000, first));
    await serve(other, 8, apart);
    for (const client of ['10.10.9.1', '10.10.9.2']) connect(client, '10.96.0.10');
    connect('10.10.9.1', '10.96.0.11');
    await serve(web, 7, intent('10.96.0.10', 80_000, second));
    for (const client of ['10.10.9.3', '10.10.9.4']) connect(client, '10.96.0.10');
    await expect.poll(remembered).toEqual(['10.10.9.1', '10.10.9.1', '10.10.9.2', '10.10.9.3', '10.10.9.4']);

    keeper.changed(web, both, intent('10.96.0.10', 80_000, second), Promise.resolve());
    await expect.poll(remembered).toEqual(['10.10.9.1', '10.10.9.3', '10.10.9.4']);
    expect(keeper.removed).toBe(2);

    await keeper.expire();
    time.nowMs = 79_999_000;
    await keeper.expire();
    expect(remembered()).toHaveLength(3);
    time.nowMs = 80_000_000;
    await keeper.expire();
    expect(remembered()).toEqual(['10.10.9.1']);

    keeper.changed(other, apart, undefined, Promise.resolve());
    await expect.poll(remembered).toEqual([]);
    await bridge.dumpFlows({}, (flow) => expect(isLearned(flow.cookie)).toBe(false), stop.signal);
  });
});
