import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../../test/support/example-node.ts';
import { admitting } from '../../../dataplane/compile/compile-commit.ts';
import { familiesOf } from '../../../dataplane/compile/environment.ts';
import { formatFlow, formatMeter } from '../../../dataplane/pipeline/format.ts';
import { ofPorts } from '../../../dataplane/pipeline/well-known.ts';
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

  it('never decide about a packet: no step is a meter', () => {
    const steps = compileOpened(32_784, exampleNode).flows.flatMap((flow) => flow.steps);
    expect(steps.filter(({ do: what }) => what === 'meter')).toEqual([]);
  });
});
