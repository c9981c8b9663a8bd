import { describe, expect, it } from 'vitest';
import { parseIp } from '../net/ip.ts';
import { formatFlow, formatGroup } from '../pipeline/format.ts';
import { compileEndpoint, compileService, type ServicePort } from './compile-service.ts';

const dns: ServicePort = {
  transport: 'udp',
  clusterIp: parseIp('10.96.0.10'),
  port: 53,
  groupId: 7,
  endpoints: [
    { ip: parseIp('10.10.1.5'), port: 53 },
    { ip: parseIp('10.10.0.9'), port: 53 },
  ],
};

describe('compileService', () => {
  it('balances over a group whose buckets go on to the translation', () => {
    const wanted = compileService(dns);
    expect(wanted.flows.map(formatFlow)).toEqual([
      'table=balance,priority=200,reg4=0x10000/0x70000,udp,nw_dst=10.96.0.10,tp_dst=53 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,group:7',
    ]);
    expect(wanted.groups.map(formatGroup)).toEqual([
      'group_id=7,type=select,selection_method=dp_hash,' +
        'bucket=weight:100,actions=set_field:0xa0a0009->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,resubmit(,dnat),' +
        'bucket=weight:100,actions=set_field:0xa0a0105->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,resubmit(,dnat)',
    ]);
  });

  it('does not depend on the order of the endpoints', () => {
    expect(compileService({ ...dns, endpoints: dns.endpoints.toReversed() })).toEqual(compileService(dns));
  });

  it('refuses at once when there is no endpoint', () => {
    const wanted = compileService({ ...dns, endpoints: [] });
    expect(wanted.groups).toEqual([]);
    expect(wanted.flows.map(formatFlow)).toEqual([
      'table=balance,priority=200,reg4=0x10000/0x70000,udp,nw_dst=10.96.0.10,tp_dst=53 actions=controller(userdata=04)',
    ]);
  });
});

describe('compileEndpoint', () => {
  it('translates and remembers where the connection came from', () => {
    expect(compileEndpoint('tcp', { ip: parseIp('10.10.1.5'), port: 8080 }).flows.map(formatFlow)).toEqual([
      'table=dnat,priority=200,reg3=0xa0a0105,reg4=0x1f90/0xffff,reg4=0x20000/0x70000,tcp ' +
        'actions=ct(commit,table=destinationIdentity,zone=65520,nat(dst=10.10.1.5:8080),exec(set_field:0x10/0x10->ct_mark,move:reg0[0..3]->ct_mark[0..3]))',
    ]);
  });
  it('names IPv6 endpoints in four registers', () => {
    const [flow = ''] = compileEndpoint('udp', { ip: parseIp('fd00:10::5'), port: 53 }).flows.map(formatFlow);
    expect(flow).toContain('reg12=0xfd000010,reg13=0x0,reg14=0x0,reg15=0x5,');
    expect(flow).toContain('nat(dst=[fd00:10::5]:53)');
  });
});
