import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { simulatorAnswers } from '../../src/simulate/browser/answer-questions.ts';
import type { SimulatorMessage, SimulatorReply } from '../../src/ui/answers/simulator.ts';
import type { TraceView } from '../../src/ui/answers/trace-view.ts';
import { lessons } from '../../src/ui/lessons/lessons.ts';
import { generatedCluster } from '../bench/generated-cluster.ts';
import { launchBrowser, violations } from './open-page.ts';
import { serveSimulator } from './simulator-page.ts';

const packets = Number(process.env['SEINE_TEST_PACKETS'] ?? 10_000);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);

let browser: Browser;
let site: Awaited<ReturnType<typeof serveSimulator>>;
let page: Page;
const errors: string[] = [];

beforeAll(async () => {
  [browser, site] = [await launchBrowser(), await serveSimulator()];
  page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/favicon/.test(message.text() + message.location().url)) errors.push(message.text());
  });
});
afterAll(async () => {
  await browser?.close();
  site?.close();
});

async function open(query = ''): Promise<void> {
  await page.goto(site.url + query);
  await page.getByRole('heading', { name: 'Simulator' }).waitFor();
}

const views = {
  'own objects': '',
  trace: '?view=simulator&lesson=first-policy&do=trace&from=shop%2Fapi&to=shop%2Fdb&port=5432',
  matrix: '?view=simulator&lesson=dns&do=matrix&namespace=shop&source=shop%2Fweb&destination=shop%2Fdb',
  'what if': '?view=simulator&lesson=hairpin&do=whatif',
  test: '?view=simulator&lesson=dual-stack&do=test',
} as const;

it.each(Object.entries(views))('the simulator with %s has no violation of WCAG 2.2 AA in both schemes and widths', async (name, query) => {
  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [1_280, 360]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await open(query);
      if (query !== '') await page.getByText(/^Loaded in/).waitFor();
      if (name === 'trace') await page.locator('.path').first().waitFor();
      if (name === 'matrix') await page.locator('.matrix').waitFor();
      expect(await violations(page), `${colorScheme} ${width}`).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${colorScheme} ${width}`).toBe(true);
    }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1_280, height: 800 });
  expect(errors).toEqual([]);
});

describe.each(lessons)('the lesson $title', (lesson) => {
  it('is checked in the page', async () => {
    await open(`?view=simulator&lesson=${lesson.id}`);
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('not yet').waitFor();
    await page.getByLabel('Your answer').fill(lesson.solution);
    await page.getByRole('button', { name: 'Check' }).click();
    await page.locator('.checks .badge.good', { hasText: 'solved' }).waitFor();
    expect(await page.locator('.checks .badge.bad').count()).toBe(0);
    await page.getByRole('link', { name: 'Trace this packet' }).first().click();
    await page.locator('.path').first().waitFor();
  });
});

it('names the line of an error in what the user writes, and the object that cannot be read', async () => {
  await open();
  await page.getByLabel('Objects, as YAML or JSON').fill('kind: Pod\n  bad: [');
  await page.getByText(/^Not YAML: .* at line 1, column 7/).waitFor();
  await page
    .getByLabel('Objects, as YAML or JSON')
    .fill('apiVersion: v1\nkind: Pod\nmetadata: {name: "<img src=x onerror=alert(1)>"}\nspec: {hostNetwork: 3}\n');
  await page.getByRole('button', { name: 'Simulate' }).click();
  await page.getByText(/objects: Pod <img src=x onerror=alert\(1\)>: spec\.hostNetwork/).waitFor();
});

it('opens files, shows what a change breaks, and evaluates test cases', async () => {
  await open();
  const objects = lessons[0]?.objects ?? '';
  await page.getByLabel(/open files/).setInputFiles([
    { name: 'shop.yaml', mimeType: 'text/yaml', buffer: Buffer.from(objects) },
    { name: 'policy.yaml', mimeType: 'text/yaml', buffer: Buffer.from(lessons[0]?.solution ?? '') },
  ]);
  await page.getByText(/2 nodes, 3 pods, 0 Services, 1 policy\./).waitFor();
  await page.getByRole('button', { name: 'What if' }).click();
  await page.getByLabel('Objects to delete').fill('networkpolicy/shop/db-clients');
  await page.getByRole('button', { name: 'Compute the effect' }).click();
  await page.locator('.badge.good', { hasText: 'opens' }).first().waitFor();
  await page.getByRole('button', { name: 'Test', exact: true }).click();
  await page
    .getByLabel('Test cases')
    .fill(
      'tests: seine.dev/v1\ncases: [{from: shop/api, to: shop/db, port: 5432, expect: allow}, {from: shop/web, to: shop/db, expect: allow}]',
    );
  await page.locator('section[aria-label="Test"] button.primary').click();
  await page.getByText('1 of 2 cases as expected; 100 % of 1 rule used.').waitFor();
  await page.getByText(/expected allow, found deny/).waitFor();
  expect(errors).toEqual([]);
});

/** A worker of the page, and one in this process. */
async function bothWorkers() {
  await open();
  await page.evaluate(`(() => {
    const worker = new Worker('simulator-worker.js', { type: 'module' });
    const waiting = new Map();
    worker.onmessage = ({ data }) => { waiting.get(data.id)(data); waiting.delete(data.id); };
    window.askWorker = (message) => new Promise((resolve) => { waiting.set(message.id, resolve); worker.postMessage(message); });
  })()`);
  const inNode = simulatorAnswers(() => performance.now());
  const inBrowser = (messages: readonly SimulatorMessage[]): Promise<readonly SimulatorReply[]> =>
    page.evaluate(`Promise.all(${JSON.stringify(messages)}.map((message) => window.askWorker(message)))`);
  return { inNode, inBrowser };
}

const manifestsOf = (objects: ReturnType<typeof generatedCluster>): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'List',
    items: Object.entries({
      nodes: ['v1', 'Node'],
      namespaces: ['v1', 'Namespace'],
      pods: ['v1', 'Pod'],
      services: ['v1', 'Service'],
      networkPolicies: ['networking.k8s.io/v1', 'NetworkPolicy'],
      slices: ['discovery.k8s.io/v1', 'EndpointSlice'],
    } as const).flatMap(([of, [apiVersion, kind]]) =>
      (objects[of as 'pods'] as readonly object[]).map((object) => ({ apiVersion, kind, ...object })),
    ),
  });

it(`walks ${packets} packets as Node.js does (SEINE_TEST_SEED=${seed})`, { timeout: 600_000 }, async () => {
  const { inNode, inBrowser } = await bothWorkers();
  const objects = generatedCluster({ nodes: 4, podsPerNode: 12, namespaces: 3, policies: 20, services: 12 });
  const load = { id: 0, topic: 'load', question: { files: [{ name: 'objects', content: manifestsOf(objects) }] } } as const;
  const loaded = [await inNode(load), ...(await inBrowser([load]))];
  for (const reply of loaded) expect(reply).toMatchObject({ answer: { nodes: 4, pods: 48 } });
  const pods = objects.pods.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`);
  const services = objects.services.map(({ metadata: { namespace, name } }) => `service:${namespace}/${name}`);
  const end = fc.constantFrom(...pods, ...pods, 'node:node-0001', 'outside', 'outside:198.51.100.7');
  const question = fc.record(
    {
      from: end,
      to: fc.constantFrom(...pods, ...pods, ...services, 'node:node-0002', '198.51.100.9', '10.0.9.9'),
      port: fc.constantFrom('8080', '80', '53/UDP', 'icmp', '9090'),
      established: fc.constant('true' as const),
    },
    { requiredKeys: ['from', 'to', 'port'] },
  );
  const questions = fc.sample(question, { seed, numRuns: packets });
  const found = { allowed: 0, denied: 0, unknown: 0 };
  const batch = 500;
  for (let at = 0; at < questions.length; at += batch) {
    const messages = questions
      .slice(at, at + batch)
      .map((each, index): SimulatorMessage => ({ id: at + index + 1, topic: 'trace', question: each }));
    const replies = await inBrowser(messages);
    for (const [index, message] of messages.entries()) {
      const reply = await inNode(message);
      expect(replies[index], JSON.stringify(message)).toEqual(JSON.parse(JSON.stringify(reply)));
      const { traces } = (reply as unknown as { readonly answer?: TraceView }).answer ?? { traces: [] };
      for (const { verdict } of traces.flatMap(({ paths }) => paths)) found[verdict]++;
    }
  }
  process.stdout.write(`${packets} packets: ${found.allowed} paths allowed, ${found.denied} denied, ${found.unknown} unknown\n`);
  expect(Math.min(found.allowed, found.denied)).toBeGreaterThan(packets / 10);
});

interface TimedReply {
  readonly reply: { readonly answer?: TraceView };
  readonly milliseconds: number;
}

/** Demands for a cluster of 5,000 nodes and 150,000 pods (ms). */
const most = { load: 20_000, first: 1_000, later: 50 } as const;

it('loads 5,000 nodes and 150,000 pods, and traces over two of them', { timeout: 300_000 }, async () => {
  await open();
  const size = { nodes: 5_000, podsPerNode: 30, namespaces: 500, policies: 2_000, services: 5_000 };
  const objects = generatedCluster(size);
  const [from, to] = [objects.pods[0], objects.pods[140_000]].map((pod) => `${pod?.metadata.namespace}/${pod?.metadata.name}`);
  const folder = mkdtempSync(join(tmpdir(), 'seine-simulator-'));
  const file = join(folder, 'cluster.json');
  writeFileSync(file, manifestsOf(objects));
  try {
    await page.evaluate(`(() => {
      const input = document.createElement('input');
      input.type = 'file';
      input.id = 'cluster';
      document.body.append(input);
      const worker = new Worker('simulator-worker.js', { type: 'module' });
      window.askSimulator = (message) => new Promise((resolve) => {
        const start = performance.now();
        worker.onmessage = ({ data }) => resolve({ reply: data, milliseconds: performance.now() - start });
        worker.postMessage(message);
      });
    })()`);
    await page.locator('#cluster').setInputFiles(file);
    const loading = `window.askSimulator({ id: 0, topic: 'load', question: { files: [{ name: 'cluster', content: document.getElementById('cluster').files[0] }] } })`;
    const { reply: summary, milliseconds: loadMs } = (await page.evaluate(loading)) as TimedReply;
    expect(summary).toMatchObject({ answer: { nodes: 5_000, pods: 150_000, services: 5_000, policies: 2_000 } });
    const times: number[] = [];
    for (let turn = 0; turn < 11; turn++) {
      const message = { id: turn, topic: 'trace', question: { from, to, port: '8080' } };
      const { reply, milliseconds } = (await page.evaluate(`window.askSimulator(${JSON.stringify(message)})`)) as TimedReply;
      expect(reply.answer?.traces[0]?.paths[0]?.stages.length, JSON.stringify(reply).slice(0, 300)).toBe(2);
      times.push(milliseconds);
    }
    const [first = 0, ...later] = times;
    const median = later.toSorted((a, b) => a - b)[5] ?? 0;
    process.stdout.write(
      `5,000 nodes: loaded in ${Math.round(loadMs)} ms, first trace ${Math.round(first)} ms, later ${median.toFixed(1)} ms\n`,
    );
    // Shares of the demands are recorded; the machine of a test may be busy with others.
    expect([loadMs < most.load * 3, first < most.first * 3, median < most.later * 3]).toEqual([true, true, true]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
