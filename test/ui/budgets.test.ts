import { expect, it } from 'vitest';
import { fakeStatus } from '../support/fake-fleet.ts';
import { browserOfFile } from './browser-of-file.ts';
import { openPage } from './open-page.ts';
import { memoryOfRefreshes } from './server-memory.ts';
import { shop } from './shop.ts';

const NODES = 1_000;
/** The fake cluster shares this process and its CPU. */
const PATIENCE_MS = 120_000;
const HEAP_MAX = 150 * 1_000 * 1_000;
/** Resident memory of `seinectl ui` (MiB). */
const PROCESS_MAX = 300;

const chromium = browserOfFile();

it('keeps the heap of a page of 1,000 nodes below 150 MB after 20 refreshes', async () => {
  const agents = Array.from({ length: NODES }, (_, at) => ({ node: `node-${at}`, reply: { answer: fakeStatus(`node-${at}`) } }));
  const sums = shop.pathsOfNode?.['node-1 /v1/flow-log/summary'] ?? '';
  const paths = { '/v1/drops': shop.paths?.['/v1/drops'] ?? '', '/v1/flow-log/summary': sums };
  const { browser, folder } = chromium();
  const { page, origin, close } = await openPage(browser, folder, { agents, paths });
  try {
    const session = await page.context().newCDPSession(page);
    const heap = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Runtime.getHeapUsage')).usedSize;
    };
    const used: Record<string, number> = {};
    for (const [view, address, element, refreshes] of [
      ['now', '/', '.figures', 20],
      ['traffic', '/?view=traffic', '.matrix', 3],
    ] as const) {
      await page.goto(origin + address);
      await page.locator(element).first().waitFor({ timeout: PATIENCE_MS });
      for (let turn = 0; turn < refreshes; turn++) {
        const answered = page.waitForResponse((response) => response.url().includes(`/api/${view}`));
        await page.getByRole('button', { name: 'Refresh' }).click();
        await answered;
      }
      await page.getByRole('button', { name: 'Refresh', disabled: false }).waitFor();
      used[view] = await heap();
      expect(used[view], view).toBeLessThan(HEAP_MAX);
    }
    console.log('heap of 1,000 nodes after refreshes (bytes)', JSON.stringify(used));
  } finally {
    await close();
  }
}, 400_000);

it('keeps the memory of seinectl ui below 300 MiB after 10 refreshes of 1,000 nodes', async () => {
  const memory = await memoryOfRefreshes(chromium().folder, NODES, 10);
  console.log('memory of seinectl ui after each refresh (MiB)', memory.join(' '));
  expect(Math.max(...memory)).toBeLessThan(PROCESS_MAX);
}, 400_000);
