import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { silentLog } from '../../base/log/log.ts';
import { openFlowLog } from './open-flow-log.ts';
import { trackerParametersFile } from './sources/tracker-accounting.ts';

type Parts = Parameters<typeof openFlowLog>[0];

/** Opens a log that is off; what it has no need of then is absent. */
function openIn(stateDir: string, config: Partial<Parts['config']> & { readonly closes: Parts['config']['flowLog']['closes'] }): void {
  const { closes, ...more } = config;
  const replica = { get: () => undefined, subscribe: () => () => undefined };
  const ending = new AbortController();
  openFlowLog(
    {
      config: { stateDir, hostSettings: 'manage', ovsDatapathType: 'system', flowLog: { enabled: false, closes }, ...more },
      ...{ ovs: {}, nodeState: {}, warnings: new Map(), log: silentLog },
      sources: { liveSettings: { replica }, services: { replica }, nodes: { replica } },
    } as unknown as Parts,
    {
      live: { current: exampleNode, subscribe: () => () => undefined },
      denied: { policy: {} },
    } as unknown as Parameters<typeof openFlowLog>[1],
    ending.signal,
  );
  ending.abort();
}

it.each([
  ['records ends', 'manage', 'auto', false],
  ['records no ends any more', 'manage', 'never', false],
  ['does not change the host', 'check', 'auto', true],
] as const)('forgets what a killed agent changed for ends, once it is restored, if this one %s', (_, hostSettings, closes, isLeft) => {
  const stateDir = mkdtempSync(join(tmpdir(), 'seine-flow-log-'));
  try {
    const file = trackerParametersFile(stateDir);
    writeFileSync(file, JSON.stringify({ boot: 'an earlier one', values: { nf_conntrack_acct: '0' } }));
    openIn(stateDir, { hostSettings, closes });
    expect(existsSync(file)).toBe(isLeft);
  } finally {
    rmSync(stateDir, { recursive: true });
  }
});
