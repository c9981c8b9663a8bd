import { expect, it } from 'vitest';
import type { FlowLine } from '../../api/flow-log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import type { TrackedConnection } from '../../netlink/conntrack.ts';
import type { FlowLog } from './flow-log.ts';
import { type FlowLogPort, flowLogLines } from './flow-log-answers.ts';
import type { SeenConnection } from './sources/attribution.ts';

const [web, db] = [parseIp('10.0.0.5'), parseIp('10.0.1.9')];

const tracked = (srcPort: number, dstPort: number): TrackedConnection => ({
  ...{ family: 'ipv4', ipProtocol: 17, zone: zones.ipv4.main, id: 1 },
  original: { src: web, dst: db, srcPort, dstPort },
  reply: { src: db, dst: web, srcPort: dstPort, dstPort: srcPort },
});

/** Lines about connections that are open on a node of the kernel's data path. */
async function openOf(connections: readonly TrackedConnection[], query: string): Promise<readonly FlowLine[]> {
  const nowOpen = ({ protocol, source, destination }: SeenConnection) => ({
    ...{ timeMs: 0, event: 'seen', verdict: 'allowed', reporter: 'source', protocol },
    source: { ...source, kind: 'pod' },
    destination: { ...destination, kind: 'pod' },
  });
  const flows = { nowOpen, completeFromMs: 0, lossesSince: () => ({}) } as unknown as FlowLog;
  const port: FlowLogPort = {
    config: { nodeName: 'n1', ovsDatapathType: 'system', flowLog: { closes: 'auto' } },
    running: () => ({
      flowLog: { running: () => ({ flows }) as never },
      proxy: { tracked: { list: async () => await Promise.resolve(connections) } as never },
    }),
    turns: { due: false, next: () => Promise.resolve() },
  };
  const lines: FlowLine[] = [];
  for await (const piece of flowLogLines(port, new URLSearchParams(query), new AbortController().signal))
    lines.push(...piece.split('\n').flatMap((text) => (text === '' ? [] : [JSON.parse(text) as FlowLine])));
  return lines;
}

it('counts open connections beyond those of an answer, of which only matching ones have a part', async () => {
  const others = Array<TrackedConnection>(100_002).fill(tracked(40_000, 53));
  const all = await openOf([...others, tracked(40_000, 443)], 'now=true');
  expect(all.filter((line) => 'flow' in line)).toHaveLength(100_000);
  expect(all.at(-1)).toMatchObject({ state: { skipped: 3 } });
  const some = await openOf([...others, tracked(40_000, 443)], 'now=true&to-port=443');
  expect(some.map((line) => ('flow' in line ? line.flow.destination.port : line.state.skipped))).toEqual([0, 443, 0]);
});
