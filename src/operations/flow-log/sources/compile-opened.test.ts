import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../../test/support/example-node.ts';
import { admitting } from '../../../dataplane/compile/compile-commit.ts';
import { familiesOf } from '../../../dataplane/compile/environment.ts';
import { formatFlow, formatMeter } from '../../../dataplane/pipeline/format.ts';
import { ofPorts } from '../../../dataplane/pipeline/well-known.ts';
import { compileEnded, compileSeen } from './compile-ended.ts';
import { compileOpened } from './compile-opened.ts';

describe('copies of opened connections', () => {
  it('are the flows that admit, for one port and without probes, with a metered copy first', () => {
    const { flows, meters = [] } = compileOpened(32_784, exampleNode);
    expect(meters.map(formatMeter)).toEqual(['meter=163856,pktps,burst,bands=type=drop,rate=200,burst_size=400']);
    expect(flows.map(formatFlow)).toEqual(
      familiesOf(exampleNode).flatMap((family) => {
        const { throughService, direct } = admitting(family);
        const copy = 'controller(max_len=128,userdata=0c,meter_id=163856),';
        const copied = (text: string, from: number, to: number, mark: string): string =>
          text
            .replace(`priority=${from},`, `priority=${to},in_port=32784,reg11=0x0/0x80000000,`)
            .replace(/ct_mark=\S+?,/, `ct_mark=${mark},`)
            .replace('actions=', `actions=${copy}`);
        return [
          copied(formatFlow(throughService), 210, 215, '0x80/0x80'),
          copied(formatFlow(direct), 200, 202, '0x0/0x10,ct_mark=0x0/0xf'),
        ];
      }),
    );
  });

  it('are limited per pod, and for the tunnel and the gateway together', () => {
    const rateOf = (port: number) => compileOpened(port, exampleNode).meters?.map(({ rate }) => rate);
    expect([32_784, ofPorts.tunnel, ofPorts.gateway].map(rateOf)).toEqual([[200], [2_000], [2_000]]);
  });

  it.each([
    ['gateway', ofPorts.gateway, 'src'],
    ['tunnel', ofPorts.tunnel, 'dst'],
  ])('are not made of echoes that nodes send by the %s', (_, port, side) => {
    const texts = compileOpened(port, exampleNode).flows.map(formatFlow);
    const echoes = texts.filter((text) => /,icmp6?,/.test(text));
    expect(echoes).toHaveLength(exampleNode.gateway.addresses.length);
    for (const { text } of exampleNode.gateway.addresses) expect(echoes.join('\n')).toContain(`_${side}=${text} `);
    expect(echoes.join('\n')).not.toContain('controller(');
  });

  it('are made of one of eight source ports, and of ICMP, with flows that count all other openings', () => {
    const { flows } = compileOpened(32_784, exampleNode, 8);
    const own = 'in_port=32784,reg11=0x0/0x80000000';
    const shown = flows.map((flow) => {
      const text = formatFlow(flow);
      const protocol = /,(icmp6?)[ ,]/.exec(text)?.[1] ?? 'any';
      return [flow.priority, protocol, /ct_tp_src=(\S+?)[ ,]/.exec(text)?.[1], text.includes('controller('), text.includes(own)];
    });
    expect(shown).toEqual(
      familiesOf(exampleNode).flatMap((family) => [
        [215, 'any', '0x0/0xe', true, true],
        [202, 'any', '0x0/0xe', true, true],
        [203, family === 'ipv4' ? 'icmp' : 'icmp6', undefined, true, true],
        [212, 'any', undefined, false, true],
        [201, 'any', undefined, false, true],
      ]),
    );
    const withoutCopy = (all: typeof flows) =>
      new Set(all.map(({ steps }) => JSON.stringify(steps.filter((step) => step.do !== 'toAgent'))));
    expect(withoutCopy(flows)).toEqual(withoutCopy(compileOpened(32_784, exampleNode).flows));
  });

  it('never decide about a packet: no step is a meter', () => {
    const steps = ([1, 8] as const).flatMap((sampling) => compileOpened(32_784, exampleNode, sampling).flows).flatMap((flow) => flow.steps);
    expect(steps.filter(({ do: what }) => what === 'meter')).toEqual([]);
  });
});

it('copies the packets that end a TCP connection, and the one that answers the first, below the flows that admit', () => {
  const { flows, meters = [] } = compileEnded(32_784, exampleNode);
  const rates = 'pktps,burst,bands=type=drop,rate=200,burst_size=400';
  expect(meters.map(formatMeter)).toEqual([`meter=229392,${rates}`, `meter=294928,${rates}`]);
  const own = 'in_port=32784,reg11=0x0/0x80000000';
  const to = (reason: string, meter: number) => `actions=controller(max_len=128,userdata=${reason},meter_id=${meter}),goto_table:tunnel`;
  expect(flows.map(formatFlow)).toEqual(
    familiesOf(exampleNode).flatMap((family) => {
      const tcp = family === 'ipv4' ? 'tcp' : 'tcp6';
      return [
        `table=commit,priority=190,${own},ct_state=+trk+est-rpl,${tcp},tcp_flags=+fin ${to('0d', 229_392)}`,
        `table=commit,priority=195,${own},ct_state=+trk+est,${tcp},tcp_flags=+rst ${to('0d', 229_392)}`,
        `table=commit,priority=100,${own},ct_state=+trk+est+rpl,${tcp},tcp_flags=+syn ${to('0e', 294_928)}`,
      ];
    }),
  );
});

it('copies packets of any established connection below all others, at a low rate', () => {
  const { flows, meters = [] } = compileSeen(32_784, exampleNode);
  expect(meters.map(formatMeter)).toEqual(['meter=360464,pktps,burst,bands=type=drop,rate=20,burst_size=20']);
  expect(flows.map(({ priority: level, steps }) => [level, steps.map(({ do: what }) => what).join()])).toEqual(
    familiesOf(exampleNode).map(() => [1, 'toAgent,goto']),
  );
});

it('copies ends, and packets of established connections, of the connections that are recorded', () => {
  const flows = [compileEnded(32_784, exampleNode, 64), compileSeen(32_784, exampleNode, 64)].flatMap((wanted) => wanted.flows);
  for (const flow of flows) expect(formatFlow(flow)).toContain('ct_tp_src=0x0/0x7e');
});
