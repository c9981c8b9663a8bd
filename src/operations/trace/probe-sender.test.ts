import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import type { TraceOnward } from '../../api/trace.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { KernelPacket } from './kernel-paths.ts';
import { probeEntry, unsentProbe } from './probe-sender.ts';
import { endsOf, type TracedEnds } from './trace-ends.ts';
import type { TraceQuestion, TraceSender } from './trace-question.ts';

const onward: TraceOnward = { node: 'n2', mode: 'direct' };
const direct = ({ destination: { text } }: KernelPacket): TraceOnward | undefined => (text === '10.10.4.9' ? onward : undefined);

function question(from: Partial<TraceSender>, to = '10.10.0.5'): TraceQuestion {
  const sender: TraceSender = { name: 'outside', kind: 'outside', addresses: [parseIp('203.0.113.1')], ...from };
  const receiver = { name: to, addresses: [parseIp(to)] };
  return {
    from: sender,
    to: receiver,
    protocol: 'tcp',
    port: 80,
    sourcePort: 20_001,
    hasSourcePort: false,
    isEstablished: false,
    families: ['ipv4'],
  };
}

function endsIn(asked: TraceQuestion): TracedEnds {
  const [ends] = endsOf(asked, 'ipv4');
  if (!ends) throw new Error('the question has no ends');
  return ends;
}

const entryOf = (from: Partial<TraceSender>, to?: string) =>
  probeEntry(question(from, to), endsIn(question(from, to)), exampleNode, direct);

describe('a probe', () => {
  it('of a pod enters by its port, and those of the node and of others by the gateway', () => {
    const pod = { ofPort: 32_784, mac: parseMac('0e:aa:00:00:00:05') };
    expect(entryOf({ kind: 'pod', pod })).toEqual({ ofPort: 32_784 });
    for (const kind of ['node', 'outside', 'direct'] as const) expect(entryOf({ kind })).toEqual({ ofPort: exampleNode.gateway.ofPort });
  });

  it.each([
    [
      'it would come from a tunnel',
      { name: 'tunnel:n2/10.10.4.9', kind: 'tunnel' } as const,
      'from: "tunnel:n2/10.10.4.9" arrives in a tunnel',
    ],
    ['its source is a loopback address', { addresses: [parseIp('127.0.0.1')] }, 'no packet with the source 127.0.0.1 is routed'],
    ['its source is a group', { addresses: [parseIp('224.0.0.5')] }, 'no packet with the source 224.0.0.5 is routed'],
    ['both ends are one', { addresses: [parseIp('10.10.0.5')] }, 'from: "outside" is the receiver too'],
  ])('is refused if %s', (_, from, message) => {
    expect(() => entryOf(from)).toThrow(message);
  });

  it('that would not pass the bridge is not sent, and names the way of such packets', () => {
    const [byNode, fromOutside] = [entryOf({ kind: 'node' }, '10.10.4.9'), entryOf({}, '10.10.4.9')];
    expect(byNode).toEqual({ unsent: 'the kernel of the node sends such packets itself, past its bridge', onward });
    expect(fromOutside).toEqual({ unsent: 'the kernel of the node forwards such packets itself, past its bridge', onward });
    if (!('unsent' in byNode)) throw new Error('it is sent');
    const asked = question({}, '10.10.4.9');
    expect(unsentProbe(asked, endsIn(asked), 'TCP', byNode)).toMatchObject({
      unsent: true,
      end: { what: 'node', onward, packet: { source: '203.0.113.1', sourcePort: 20_001, destination: '10.10.4.9', destinationPort: 80 } },
    });
  });
});
