import { expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { FlowSummaries, FlowSummary } from '../../api/flow-log.ts';
import { printSummaries } from './flows-page.ts';

const pair: FlowSummary = {
  source: 'shop/web',
  destination: 'shop/db',
  service: 'shop/db',
  protocol: 'TCP',
  port: 80,
  verdict: 'allowed',
  connections: 5,
};
const losses = { sampling: 0, meter: 2, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };

function answer(items: readonly FlowSummary[], others = 0): FlowSummaries {
  return { state: { node: 'node-1', enabled: true, sources: [], losses, skipped: 0 }, since: '2026-11-29T14:00:00Z', items, others };
}

it('sums up by namespace, service or port, and shows losses', () => {
  const denied: FlowSummary = { ...pair, destination: 'data/db', verdict: 'denied', connections: 2 };
  const lines = (by: 'namespace' | 'service' | 'port' | 'pair') => {
    const { terminal, out, err } = recordingTerminal();
    printSummaries(
      [answer([pair, denied], 3)],
      { what: 'top', by, seconds: 60 },
      { filters: [], agentsNamespace: '', output: 'table' },
      terminal,
    );
    expect(err).toEqual([
      '(3 more connections between other workloads)',
      '(node-1: 2 openings not recorded: beyond the rate of their pod)',
    ]);
    return out.slice(1).map((line) => line.trim().replace(/ +/g, ' '));
  };
  expect(lines('namespace')).toEqual(['5 shop -> shop', '2 2 shop -> data']);
  expect(lines('service')).toEqual(['7 2 shop/db']);
  expect(lines('port')).toEqual(['7 2 80/TCP']);
});
