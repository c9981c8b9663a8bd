import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseIp } from '../../base/net/ip.ts';
import { formatFlow } from '../pipeline/format.ts';
import { compileSubject } from './compile-entry.ts';
import { compileVerdicts, deniedFlows } from './compile-verdict.ts';
import type { NodeEnvironment } from './environment.ts';

const node: NodeEnvironment = { ...exampleNode, podCidrs: exampleNode.podCidrs.filter(({ family }) => family === 'ipv4') };
const dump = (environment: NodeEnvironment, table: string) =>
  compileVerdicts(environment)
    .map((flow) => formatFlow(flow).replace(/^table=/, ''))
    .filter((line) => line.startsWith(`${table},`));
const ports = { ofPort: 32784, addresses: [] };

describe('the tables of policy', () => {
  it('admits answers, and looks up the other address for the rest', () => {
    const kept: NodeEnvironment = { ...node, liveConnections: 'keep' };
    expect([...dump(kept, 'egressLookup'), ...dump(kept, 'ingressLookup')]).toEqual([
      'egressLookup,priority=200,reg0=0x400/0x1c00 actions=goto_table:route',
      'egressLookup,priority=190,reg0=0x0/0x1c00 actions=resubmit(,destinationIdentity),goto_table:egressNetworkPolicy',
      'egressLookup,priority=195,reg0=0x0/0x1c00,reg10=0x10/0x10 actions=set_field:0x0/0x10->reg10,resubmit(,destinationIdentity),goto_table:egressAdmin',
      'ingressLookup,priority=200,reg0=0x400/0x1c00 actions=goto_table:commit',
      'ingressLookup,priority=190,reg0=0x0/0x1c00 actions=resubmit(,sourceIdentity),goto_table:ingressNetworkPolicy',
      'ingressLookup,priority=195,reg0=0x0/0x1c00,reg10=0x10/0x10 actions=set_field:0x0/0x10->reg10,resubmit(,sourceIdentity),goto_table:ingressAdmin',
    ]);
  });

  it('admits only its own node to a pod blocked pending policy', () => {
    const allow = 'actions=set_field:0x800/0x1c00->reg0,goto_table:egressVerdict';
    const deny = (table: string) => `actions=set_field:0xc00/0x1c00->reg0,set_field:0x40/0x60->reg10,goto_table:${table}`;
    expect(dump(node, 'egressNetworkPolicy').toSorted()).toEqual([
      `egressNetworkPolicy,priority=100,reg13=0x800/0x3ff800 ${deny('egressVerdict')}`,
      `egressNetworkPolicy,priority=190,reg13=0x800/0x3ff800,ip,nw_dst=10.10.0.1 ${allow}`,
      `egressNetworkPolicy,priority=190,reg13=0x800/0x3ff800,ip,nw_dst=192.168.77.1 ${allow}`,
      'egressNetworkPolicy,priority=200,reg13=0x0/0x3ff800 actions=goto_table:egressBaseline',
    ]);
    expect(dump(node, 'ingressNetworkPolicy')).toEqual([
      `ingressNetworkPolicy,priority=100,reg13=0x800/0x3ff800 ${deny('ingressVerdict')}`,
      'ingressNetworkPolicy,priority=200,reg13=0x0/0x3ff800 actions=goto_table:ingressBaseline',
    ]);
  });

  it('opens nothing with fragments where ports decide, and continues admitted connections', () => {
    expect(dump({ ...node, liveConnections: 'keep' }, 'ingressNetworkPolicyPorts')).toEqual([
      'ingressNetworkPolicyPorts,priority=230,ct_state=-new-inv+trk,ct_mark=0x0/0x80,ip,ip_frag=yes actions=set_field:0x800/0x1c00->reg0,goto_table:ingressVerdict',
      'ingressNetworkPolicyPorts,priority=205,ip,ip_frag=yes actions=set_field:0xc00/0x1c00->reg0,set_field:0x6000/0x3e000->reg0,set_field:0x40/0x60->reg10,goto_table:ingressVerdict',
    ]);
  });

  it('looks up the ports of answers as those that opened their connection, and treats a Service’s as allowed', () => {
    const asked = 'ingressNetworkPolicyPorts,priority=250,reg0=0x400000/0x600000';
    const flows = dump(node, 'ingressNetworkPolicyPorts').filter((line) => line.includes('priority=250'));
    expect(flows).toEqual([
      `${asked},reg0=0x0/0x2000000,ct_state=+rpl+trk,ct_mark=0x0/0x10 actions=set_field:0x2000000/0x2000000->reg0,resubmit(,ingressNetworkPolicyPorts,ct)`,
      `${asked},ct_mark=0x10/0x10 actions=set_field:0x800/0x1c00->reg0,goto_table:ingressVerdict`,
    ]);
  });

  it('continues with the next tier where a pod has no rules, and allows what none decides', () => {
    const tiers = (['egressAdmin', 'egressBaseline', 'ingressAdmin', 'ingressBaseline'] as const).flatMap((table) => dump(node, table));
    expect(tiers).toEqual([
      'egressAdmin,priority=200,reg13=0x0/0x7ff actions=goto_table:egressNetworkPolicy',
      'egressBaseline,priority=200,reg13=0x0/0xffc00000 actions=set_field:0x800/0x1c00->reg0,goto_table:egressVerdict',
      'ingressAdmin,priority=200,reg13=0x0/0x7ff actions=goto_table:ingressNetworkPolicy',
      'ingressBaseline,priority=200,reg13=0x0/0xffc00000 actions=set_field:0x800/0x1c00->reg0,goto_table:ingressVerdict',
    ]);
  });

  it('has the rows for fragments and replies in the tables of ports of every tier', () => {
    const rowsOf = (table: string) => dump(node, table).map((line) => line.replaceAll(table, 'ports'));
    for (const direction of ['egress', 'ingress'] as const)
      for (const tier of ['Admin', 'Baseline'] as const)
        expect(rowsOf(`${direction}${tier}Ports`)).toEqual(rowsOf(`${direction}NetworkPolicyPorts`));
  });

  it('admits answers unconditionally if established connections continue', () => {
    const asked = /reg0=0x(1000000\/0x1800000|400000\/0x600000)/;
    const all = (environment: NodeEnvironment) => compileVerdicts(environment).filter((flow) => asked.test(formatFlow(flow)));
    expect(all(node)).toHaveLength(20);
    expect(all({ ...node, liveConnections: 'keep' })).toEqual([]);
    expect(all({ ...node, policyMode: 'audit' })).toEqual([]);
  });

  const forgotten =
    'set_field:0x0/0x1c00->reg0,set_field:0x0->reg13,set_field:0x0->reg12,' +
    'set_field:0x0/0xfff00000->reg8,set_field:0x0/0xfffff->reg8,set_field:0x0/0xfff00000->reg9,set_field:0x0/0xfffff->reg9';

  it('clears its registers when it admits, and marks known connections with a direction as not admitted when it denies', () => {
    expect(dump(node, 'ingressVerdict')).toEqual([
      `ingressVerdict,priority=200,reg0=0x800/0x1c00 actions=${forgotten},goto_table:commit`,
      'ingressVerdict,priority=210,reg0=0xc00/0x1c00,ct_state=-new-inv+trk,ct_mark=0x0/0x80,ip actions=ct(commit,zone=65520,exec(set_field:0x80/0x80->ct_mark))',
      'ingressVerdict,priority=215,reg0=0xc00/0x1c00,ct_mark=0x40/0x40 actions=drop',
      ...['0x3/0xf', '0x1/0xf'].map(
        (source) =>
          `ingressVerdict,priority=205,reg0=0xc00/0x1c00,reg10=0x20/0x60,reg0=${source},ct_state=+new-inv+trk actions=goto_table:refusals`,
      ),
      'ingressVerdict,priority=200,reg0=0xc00/0x1c00 actions=drop',
      `ingressVerdict,priority=250,reg0=0x400000/0x600000,reg0=0x800/0x1c00 actions=${forgotten},set_field:0x0/0x600000->reg0,` +
        'set_field:0x0/0x2000000->reg0,set_field:0x400/0x1c00->reg0,resubmit(,route)',
      'ingressVerdict,priority=250,reg0=0x400000/0x600000,reg0=0xc00/0x1c00,ct_state=+trk,ip actions=ct(commit,zone=65520,exec(set_field:0x80/0x80->ct_mark))',
    ]);
  });

  it('passes packets that open a connection to the agent where their sender gets an answer: pods alone, local ones for egress', () => {
    const refused = (environment: NodeEnvironment, table: string) =>
      dump(environment, table).filter((line) => line.endsWith('goto_table:refusals'));
    const [reject, unset] = ['reg10=0x20/0x60', 'reg10=0x0/0x60'];
    const [pod, tunnel] = ['reg0=0x3/0xf', 'reg0=0x1/0xf'];
    const opening = 'ct_state=+new-inv+trk actions=goto_table:refusals';
    const lines = (table: string, ...regs: readonly string[]) =>
      regs.map((each) => `${table},priority=205,reg0=0xc00/0x1c00,${each},${opening}`);
    expect(refused(node, 'egressVerdict')).toEqual(lines('egressVerdict', `${reject},${pod}`));
    expect(refused({ ...node, denied: 'reject' }, 'egressVerdict')).toEqual(lines('egressVerdict', `${reject},${pod}`, `${unset},${pod}`));
    expect(refused({ ...node, denied: 'reject' }, 'ingressVerdict')).toEqual(
      lines('ingressVerdict', `${reject},${pod}`, `${unset},${pod}`, `${reject},${tunnel}`, `${unset},${tunnel}`),
    );
  });

  it('passes them to the agent also for a pod whose denied packets are logged, from pods that arrive without a tunnel', () => {
    const fromGateway = (environment: NodeEnvironment) =>
      deniedFlows(environment)
        .ingress.map(formatFlow)
        .filter((line) => line.includes('reg0=0x2/0xf') && line.endsWith('goto_table:refusals'));
    expect(fromGateway(node)).toEqual([]);
    expect(fromGateway({ ...node, directPackets: true })).toHaveLength(1);
    expect(fromGateway({ ...node, directPackets: true, policyMode: 'audit' })).toEqual([]);
  });

  it('does the same with SCTP packets of no known association, if conntrack does not see their ports', () => {
    const sctp = dump({ ...node, blindToSctp: true }, 'egressVerdict').filter((line) => line.includes('sctp'));
    expect(sctp).toContain(
      'egressVerdict,priority=230,reg0=0xc00/0x1c00,reg10=0x20/0x60,reg0=0x3/0xf,reg0=0x0/0xc000000,ct_state=-inv+trk,sctp actions=goto_table:refusals',
    );
  });

  it.each(['audit', 'off'] as const)('admits denied packets in mode %s, by a flow that counts them', (policyMode) => {
    expect(dump({ ...node, policyMode }, 'egressVerdict')).toEqual([
      `egressVerdict,priority=200,reg0=0x800/0x1c00 actions=${forgotten},goto_table:route`,
      `egressVerdict,priority=200,reg0=0xc00/0x1c00 actions=${forgotten},set_field:0x0/0x60->reg10,goto_table:route`,
    ]);
  });
});

describe('a subject', () => {
  const lines = (...more: Parameters<typeof compileSubject>) => compileSubject(...more).map(formatFlow);

  it('is sent to policy in isolated directions, and continues in others', () => {
    expect(lines({ ...ports, ingress: 5 })).toEqual([
      'table=egressEntry,priority=200,in_port=32784 actions=goto_table:route',
      'table=ingressEntry,priority=200,reg1=0x8010 actions=set_field:0x2800/0x3ff800->reg13,goto_table:ingressLookup',
      'table=egressEntry,priority=220,in_port=32784,reg0=0x200000/0x600000,ct_state=+rpl+trk ' +
        'actions=set_field:0x400000/0x600000->reg0,set_field:0x2800/0x3ff800->reg13,resubmit(,sourceIdentity,ct),goto_table:ingressLookup',
    ]);
    expect(lines({ ...ports, egress: 5 }).at(-1)).toBe(
      'table=ingressEntry,priority=230,reg1=0x8010,reg0=0x800000/0x1800000,ct_state=+rpl+trk,ct_mark=0x3/0xf ' +
        'actions=set_field:0x1000000/0x1800000->reg0,set_field:0x2800/0x3ff800->reg13,resubmit(,destinationIdentity,ct),resubmit(,egressNetworkPolicy)',
    );
  });

  it('loads the classes of all tiers at once if cluster policies have rules for it', () => {
    const classes = 7 + 5 * 2 ** 11 + 3 * 2 ** 22;
    const loads = (value: number) => `set_field:0x${value.toString(16)}->reg13,set_field:0x10/0x10->reg10`;
    expect(lines({ ...ports, egress: 5, cluster: { egress: { admin: 7, baseline: 3 }, ingress: { baseline: 3 } } })).toEqual([
      `table=egressEntry,priority=200,in_port=32784 actions=${loads(classes)},goto_table:egressLookup`,
      `table=ingressEntry,priority=200,reg1=0x8010 actions=${loads(3 * 2 ** 22)},goto_table:ingressLookup`,
      `table=ingressEntry,priority=230,reg1=0x8010,reg0=0x0/0x1c00,ct_state=-inv+trk,ct_mark=0x40/0x40 actions=set_field:0x${(3 * 2 ** 22).toString(16)}->reg13,resubmit(,sourceIdentity,ct),goto_table:ingressAdmin`,
      'table=ingressEntry,priority=230,reg1=0x8010,reg0=0x0/0x1c00,ct_state=+inv+trk,ct_mark=0x40/0x40 actions=drop',
      'table=egressEntry,priority=220,in_port=32784,reg0=0x200000/0x600000,ct_state=+rpl+trk ' +
        `actions=set_field:0x400000/0x600000->reg0,${loads(3 * 2 ** 22)},resubmit(,sourceIdentity,ct),goto_table:ingressLookup`,
      'table=ingressEntry,priority=230,reg1=0x8010,reg0=0x800000/0x1800000,ct_state=+rpl+trk,ct_mark=0x3/0xf ' +
        `actions=set_field:0x1000000/0x1800000->reg0,${loads(classes)},resubmit(,destinationIdentity,ct),resubmit(,egressAdmin)`,
    ]);
    expect(lines({ ...ports, cluster: { egress: { baseline: 3 } } }).at(-1)).toMatch(/resubmit\(,egressBaseline\)$/);
    expect(lines({ ...ports, addresses: [parseIp('10.10.0.5')], egress: 5, cluster: { egress: { admin: 7 } } })).toContain(
      `table=egressEntry,priority=215,in_port=32784,reg0=0x0/0x1c00,ct_mark=0x10/0x10,ip,nw_dst=10.10.0.5 actions=${loads(7)},goto_table:egressLookup`,
    );
  });

  it('reaches itself, whatever isolates it', () => {
    const [address = expect.fail()] = node.gateway.addresses;
    expect(lines({ ...ports, addresses: [address], egress: 'closed', ingress: 'closed' })).toEqual([
      'table=egressEntry,priority=200,in_port=32784 actions=set_field:0x800/0x3ff800->reg13,goto_table:egressLookup',
      'table=ingressEntry,priority=200,reg1=0x8010 actions=set_field:0x800/0x3ff800->reg13,goto_table:ingressLookup',
      'table=egressEntry,priority=210,in_port=32784,ip,nw_dst=10.10.0.1 actions=goto_table:route',
    ]);
  });
});
