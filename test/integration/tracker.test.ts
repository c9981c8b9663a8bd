import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

/** Claims of docs/data-paths.md about the userspace tracker, by version: nothing of it is queried from OVS. */
const ofVersion: Readonly<Record<string, { readonly aborts: boolean; readonly knowsSctp: boolean; readonly flushesByMark: boolean }>> = {
  '3.1.0': { aborts: true, knowsSctp: false, flushesByMark: false },
  '3.5.0': { aborts: false, knowsSctp: true, flushesByMark: true },
  '4.0.0': { aborts: false, knowsSctp: true, flushesByMark: true },
};
const patience = { timeout: 20_000 };

/** INIT from 10.0.0.1:4000 to 10.0.0.2:80, and one to port 82 with a wrong checksum. */
const init =
  '02000000000202000000000108004500003400010000408466430a0000010a0000020fa0005000000000dba8df1d0100001400000007000100000001000100000001';
const damagedLookup =
  '02000000000202000000000108004500003400010000408466430a0000010a0000020fa2005200000000000000000100001400000007000100000001000100000001';

let ovs: TestSwitch;
let gives: (typeof ofVersion)[string] | undefined;

beforeEach(() => {
  ovs = startSwitch('--enable-dummy');
  gives = ofVersion[/\d+\.\d+\.\d+/.exec(ovs.exec('ovs-vswitchd', '--version'))?.[0] ?? ''];
  const ports = ['1', '2'].flatMap((number) => [
    ...['--', 'add-port', 'br-int', `p${number}`, '--', 'set', 'Interface', `p${number}`, 'type=dummy', `ofport_request=${number}`],
  ]);
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...ports);
});
afterEach(async () => {
  await ovs.stop();
});

const flow = (text: string): string => ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', text);
const tracked = (): string => ovs.exec('ovs-appctl', 'dpctl/dump-conntrack');

function send(port: 1 | 2, packet: string): void {
  ovs.exec('ovs-appctl', '-t', 'ovs-vswitchd', 'netdev-dummy/receive', `p${port}`, packet);
}

/** Between 10.0.0.1, at port 1, and 10.0.0.2. */
function packet(from: 1 | 2, transport: string): string {
  const to = 3 - from;
  const ends = `eth(src=02:00:00:00:00:0${from},dst=02:00:00:00:00:0${to}),eth_type(0x0800),ipv4(src=10.0.0.${from},dst=10.0.0.${to}`;
  return `in_port(${from}),${ends},proto=${transport.startsWith('udp') ? 17 : 6},tos=0,ttl=64,frag=no),${transport}`;
}

it.each(['nat(dst=10.0.0.2:80)', 'nat(src=0.0.0.0)', 'nat(src=10.0.0.1)'])(
  'survives a connection that returns, translated to itself by %s, or aborts',
  async (nat) => {
    flow('table=0,tcp,actions=ct(zone=1,nat,table=1)');
    flow(`table=1,priority=10,tcp,ct_state=+new,in_port=1,actions=ct(commit,zone=1,${nat}),output:2`);
    flow('table=1,priority=1,actions=output:in_port');
    const lives = (): boolean => existsSync(`${ovs.runDir}/ovs-vswitchd.pid`) && ovs.exec('ovs-appctl', 'version') !== '';
    const exchange = (): boolean => {
      try {
        for (const [from, ports, flags] of [
          [1, 'src=4000,dst=80', 0x02],
          [2, 'src=80,dst=4000', 0x12],
          [1, 'src=4000,dst=80', 0x10],
          [1, 'src=4000,dst=80', 0x04],
        ] as const)
          send(from, packet(from, `tcp(${ports}),tcp_flags(${flags})`));
        return lives();
      } catch {
        return false; // its control socket does not answer
      }
    };
    if (gives?.aborts === true) await expect.poll(exchange, patience).toBe(false);
    else expect(Array.from({ length: 5 }, exchange)).toEqual([true, true, true, true, true]);
  },
);

it('sees the ports of SCTP, or treats all of two addresses as one connection', async () => {
  flow('table=0,sctp,actions=ct(zone=1,table=1)');
  flow('table=1,priority=10,sctp,ct_state=+new,actions=ct(commit,zone=1)');
  send(1, damagedLookup);
  send(1, init);
  const ports = gives?.knowsSctp === false ? 'sport=0,dport=0' : 'sport=4000,dport=80';
  await expect.poll(tracked, patience).toContain(`sctp,orig=(src=10.0.0.1,dst=10.0.0.2,${ports})`);
  if (gives?.knowsSctp !== false) expect(tracked()).not.toContain('dport=82');
});

it('flushes by mark, or reports that it cannot', async () => {
  flow('table=0,udp,actions=ct(commit,zone=2,exec(load:5->NXM_NX_CT_MARK[]))');
  send(1, packet(1, 'udp(src=4000,dst=80)'));
  await expect.poll(tracked, patience).toContain('mark=5');
  const flush = (mark: number) => () => ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'ct-flush', 'br-int', 'zone=2', `mark=${mark}`);
  if (gives?.flushesByMark === false) {
    expect(flush(5)).toThrow('invalid conntrack tuple field: mark');
    return;
  }
  flush(6)();
  expect(tracked()).toContain('mark=5');
  flush(5)();
  await expect.poll(tracked, patience).not.toContain('mark=5');
});
