import { describe, expect, it } from 'vitest';
import type { ProbeEnd, SentProbe } from '../../api/trace.ts';
import type { NodeQuestion, TraceVerdict, WholeTrace } from '../../operations/path/whole-trace.ts';
import { type ProbeAgents, probeLines, withProbes } from './probe-path.ts';
import { exitCodeOf, traceExitCodes } from './trace-report.ts';

const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 20_007, destination: '10.0.1.5', destinationPort: 80, ttl: 64 };
const end = (what: ProbeEnd['what'], to: string, more: Partial<ProbeEnd> = {}): ProbeEnd => ({
  what,
  to,
  table: 'output',
  packet,
  ...more,
});
const toNode2 = end('tunnel', 'node-2');
const toPod = end('pod', 'pod shop/db-0');
const byPolicy = end('dropped', 'policy.ingress', { table: 'ingressVerdict' });

function traceOf(bridge: TraceVerdict): WholeTrace {
  const path = { verdict: bridge, endpoints: [], segments: [], desired: bridge, bridge };
  return {
    family: 'ipv4',
    from: 'shop/web-0',
    to: 'shop/db-0',
    packet,
    connection: 'new',
    moreEndpoints: 0,
    node: 'node-1',
    paths: [path],
  };
}

/** Agents whose probe ends here, and there. @param there `failure` to give no answer */
function agents(here: ProbeEnd | null, there: ProbeEnd | null | 'failure' = null, notes: readonly string[] = [], isNarrow = false) {
  const asked: string[] = [];
  const probe: SentProbe = { family: 'ipv4', number: 7, packet, end: here, notes, milliseconds: 3 };
  const fake: ProbeAgents = {
    connect: () => Promise.resolve({ failure: 'not asked' }),
    send: (node, { size }) => {
      asked.push(`send ${node}${size === undefined ? '' : ` ${size}`}`);
      if (size === 'full' && isNarrow) return Promise.resolve({ answer: { node, probes: [{ ...probe, number: 8 }] } });
      return Promise.resolve({ answer: { node, probes: [probe] } });
    },
    seen: (node, number, peer) => {
      asked.push(`seen ${node} ${number} ${peer}`);
      if (number === 8) return Promise.resolve({ answer: { node, end: null } });
      return Promise.resolve(there === 'failure' ? { failure: 'no agent answers' } : { answer: { node, end: there } });
    },
  };
  return { fake, asked };
}

async function probed(bridge: TraceVerdict, ...ends: Parameters<typeof agents>) {
  const { fake, asked } = agents(...ends);
  const traces = await withProbes([traceOf(bridge)], { from: 'shop/web-0', to: 'shop/db-0', port: '80' }, fake);
  const [trace = expect.fail()] = traces;
  return { asked, trace, lines: probeLines(trace).join('\n'), code: exitCodeOf(traces, []) };
}

describe('a probe', () => {
  it('is followed to the next node, and agrees with the flows', async () => {
    const { asked, lines, code } = await probed('allowed', toNode2, toPod);
    expect(asked).toEqual(['send node-1', 'seen node-2 7 node-1', 'send node-1 full', 'seen node-2 7 node-1']);
    expect(lines).toBe(
      '  packet allowed (node-1: left through the tunnel to node-2; node-2: reached the output to pod shop/db-0), by a probe from port 20007 that was not delivered',
    );
    expect(code).toBe(traceExitCodes.allowed);
  });

  it('that arrives only if it is small names the MTU', async () => {
    const { lines, code } = await probed('allowed', toNode2, toPod, [], true);
    expect(lines).toContain(
      'packets as large as pods send them do not: the MTU of the network is too small; `seinectl check --peer node-2` on node-1',
    );
    expect(code).toBe(traceExitCodes.disagree);
  });

  it('from the source port of a connection is sent again from another, and says what was not tried', async () => {
    const { asked, lines, code } = await probed('allowed', toNode2, toPod, [
      'connection tracking knows a connection with this source port',
    ]);
    expect(asked).toEqual(['send node-1', 'send node-1', 'send node-1']);
    expect([lines.includes('packet unknown'), code]).toEqual([true, traceExitCodes.allowed]);
    const { fake } = agents(toNode2, toPod);
    const busy: ProbeAgents = {
      ...fake,
      send: (node, question) => (question.size === 'full' ? Promise.resolve({ failure: 'it is busy' }) : fake.send(node, question)),
    };
    const [trace = expect.fail()] = await withProbes([traceOf('allowed')], { from: 'shop/web-0', to: 'shop/db-0', port: '80' }, busy);
    expect(probeLines(trace).join('\n')).toContain('a packet as large as pods send them was not tried: it is busy');
  });

  it('that is denied where the flows deny agrees too', async () => {
    const { trace, code } = await probed('denied', byPolicy);
    expect([trace.probe?.verdict, code]).toEqual(['denied', traceExitCodes.denied]);
  });

  it('that is dropped against the flows has another exit code, and remedies', async () => {
    const { lines, code } = await probed('allowed', byPolicy);
    expect(lines).toContain('the data path does not do so');
    expect(code).toBe(traceExitCodes.disagree);
  });

  it('that is lost between the nodes is sent again before it counts as lost', async () => {
    const { asked, lines, code } = await probed('allowed', toNode2, null);
    expect(asked.filter((each) => each.startsWith('send'))).toHaveLength(3);
    expect(lines).toContain('did not arrive on node-2: `seinectl check --peer node-2` on node-1');
    expect(code).toBe(traceExitCodes.disagree);
  });

  it('that ends nowhere hints at flows of others', async () => {
    const { lines, code } = await probed('allowed', null);
    expect(lines).toContain('packet lost (it ended on node-1 at no flow of Seine');
    expect(code).toBe(traceExitCodes.disagree);
  });

  it.each([['the next agent does not answer', toNode2, 'failure', 'node-2 does not report its end: no agent answers']] as const)(
    'claims nothing if %s',
    async (_, here, there, reason) => {
      const { trace, lines, code } = await probed('allowed', here, there);
      expect(trace.probe?.verdict).toBe('unknown');
      expect(lines).toContain(reason);
      expect(code).toBe(traceExitCodes.allowed);
    },
  );

  const byKernel = end('node', 'the node', { onward: { node: 'node-2', mode: 'direct' } });
  /** Agents of two nodes, between which kernels carry packets. @param there answer of the second one */
  function kernelAgents(there: Partial<SentProbe> | 'failure', first: Partial<SentProbe> = {}) {
    const asked: NodeQuestion[] = [];
    const probe: SentProbe = { family: 'ipv4', number: 7, packet, end: byKernel, notes: [], milliseconds: 3 };
    const fake: ProbeAgents = {
      connect: () => Promise.resolve({ failure: 'not asked' }),
      seen: () => Promise.resolve({ failure: 'not asked' }),
      send: (node, question) => {
        asked.push(question);
        if (node === 'node-1') return Promise.resolve({ answer: { node, probes: [{ ...probe, ...first }] } });
        if (there === 'failure') return Promise.resolve({ failure: 'no agent answers' });
        return Promise.resolve({ answer: { node, probes: [{ ...probe, ...there }] } });
      },
    };
    return { fake, asked };
  }
  const question = { from: 'shop/web-0', to: 'shop/db-0', port: '80' };

  it.each([
    ['allowed', { end: toPod }, 'node-1: reached the kernel, for node-2; node-2: reached the output to pod shop/db-0'],
    ['denied', { end: byPolicy }, 'node-2: dropped in ingressVerdict'],
    ['unknown', { end: null }, 'the second probe ended at no flow of Seine'],
    ['unknown', 'failure', 'node-2: no agent answers'],
  ] as const)('between kernels a second one begins on the next node: %s', async (verdict, there, text) => {
    const { fake, asked } = kernelAgents(there);
    const [trace = expect.fail()] = await withProbes([traceOf('allowed')], question, fake);
    expect(trace.probe?.verdict).toBe(verdict);
    expect(asked).toEqual([
      { ...question, family: 'ipv4' },
      { from: 'direct:node-1/10.0.0.5', to: '10.0.1.5', family: 'ipv4', port: '80/TCP', 'source-port': '20007' },
    ]);
    const lines = probeLines(trace).join('\n');
    expect(lines).toContain(text);
    expect(lines).toContain('which no probe tests: `seinectl check --peer node-2` on node-1 does');
  });

  it('is denied where the kernel has no encrypted way to the next node', async () => {
    const { fake, asked } = kernelAgents({}, { end: { ...byKernel, onward: { node: 'node-2', mode: 'blocked' } } });
    const [trace] = await withProbes([traceOf('denied')], question, fake);
    expect([trace?.probe?.verdict, asked.length]).toEqual(['denied', 1]);
  });

  it('that is not sent on the first node has the reason, and may begin on the next one', async () => {
    const unsent = { unsent: true, notes: ['no probe was sent here: the kernel of the node sends such packets itself'] } as const;
    const [alone = expect.fail()] = await withProbes([traceOf('allowed')], question, kernelAgents({}, { ...unsent, end: null }).fake);
    expect(probeLines(alone)).toEqual(['  packet unknown', `    ${unsent.notes[0]}`]);
    const [both = expect.fail()] = await withProbes([traceOf('allowed')], question, kernelAgents({ end: toPod }, unsent).fake);
    expect(both.probe?.verdict).toBe('allowed');
    expect(probeLines(both).join('\n')).toContain('by a probe from port 20007');
  });

  it('of a connection that exists claims nothing', async () => {
    const { trace } = await probed('allowed', byPolicy, null, ['connection tracking knows a connection with this source port']);
    expect(trace.probe?.verdict).toBe('unknown');
  });
});
