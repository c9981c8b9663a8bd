import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { priority } from '../../dataplane/pipeline/flow.ts';
import { openedMeters } from '../../dataplane/pipeline/well-known.ts';
import type { FlowStats } from '../../openflow/flows/flow-stats.ts';
import { encodeMatch } from '../../openflow/match/match.ts';
import { type FlowSources, RunningFlowLog } from './running-flow-log.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-flows-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Bridge with one port, whose meter is kept when its flows are replaced. */
class FakeBridge {
  flows: { readonly level: number; readonly packets: number }[] = [];
  metered = 0;

  dumpFlows(_filter: unknown, visit: (entry: FlowStats) => void): Promise<void> {
    for (const { level, packets } of this.flows)
      visit({ priority: level, match: encodeMatch({ in_port: 1 }), packets: BigInt(packets), durationNs: 0n } as FlowStats);
    return Promise.resolve();
  }

  dumpMeterStats(): Promise<unknown[]> {
    return Promise.resolve([{ id: openedMeters.offset + 1, bands: [{ packets: BigInt(this.metered) }] }]);
  }
}

function opened(bridge: FakeBridge): RunningFlowLog {
  const none = { subscribe: () => () => undefined };
  return new RunningFlowLog({
    ...{ openings: 2, records: 8, matrix: () => undefined, matrixRevision: () => 1, notEnforcedFor: () => undefined, names: {} },
    ...{ clock: { wallMs: () => 1_000, steadyMs: () => 1_000 }, sampling: 1, recordsDenied: false, countsNamespaces: false },
    ...{ denied: {}, refusals: none, noEndpoint: none, probes: {}, bridge, log: silentLog },
    files: { folder, bytesMax: 0, node: 'n1' },
    exports: { otlp: { endpoint: '', filter: 'summary' }, ipfix: { filter: 'all' } },
  } as unknown as FlowSources);
}

it('counts what meters stopped, and what is not in the sample, once when the sample changes', async () => {
  const bridge = new FakeBridge();
  const log = opened(bridge);
  await log.count();
  bridge.flows = [{ level: priority.aboveNormal, packets: 100 }];
  bridge.metered = 90;
  for (let count = 0; count < 10; count++) log.opened({ fields: { in_port: 1 }, data: new Uint8Array() } as never);
  await log.count();
  log.sample(8);
  bridge.flows = [
    { level: priority.overAboveNormal, packets: 1 },
    { level: priority.overNormal, packets: 7 },
  ];
  log.opened({ fields: { in_port: 1 }, data: new Uint8Array() } as never);
  for (let count = 0; count < 3; count++) await log.count();
  expect(log.flows.lossesTotal).toMatchObject({ meter: 90, queue: 0, sampling: 7 });
  await log.close();
});
