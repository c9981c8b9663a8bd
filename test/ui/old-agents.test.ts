import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FakeFleetOptions } from '../support/fake-fleet.ts';
import { browserOfFile } from './browser-of-file.ts';
import { type OpenPage, openPage, violations } from './open-page.ts';
import { type AgentRecording, readRecording, recordedReleases, requestKey } from './recorded-agents.ts';
import { type ReleaseViewName, releaseViews } from './release-views.ts';

const PATIENCE_MS = 60_000;

const chromium = browserOfFile();

/** Texts that each view has of these answers. */
const shown: Readonly<Record<ReleaseViewName, readonly (string | RegExp)[]>> = {
  now: ['3 of 3', 'policy.ingress', 'spoofed.address'],
  traffic: ['shop/db-clients spec.ingress[0]', '80/TCP', /denied/],
  connections: ['shop/db-clients spec.ingress[0]', 'shop/api'],
  use: [/80: \d+ connections?, last at/, 'From the flow logs of 2 nodes'],
  'what if': ['shop/api', 'breaks', 'TCP 80'],
  trace: ['By Open vSwitch', 'node-3', 'ends in ingressVerdict', 'To allow it'],
  probe: ['By a probe', 'ends in ingressVerdict'],
  'trace at a time': ['ingress policies deny it'],
  pod: ['shop/db', 'node-3', 'isolated by'],
  service: ['shop/db', 'node-1'],
  node: ['The agent is ready', 'bridge:'],
  timeline: ['policy.isolated', 'OVS acknowledged the flows of the pod'],
};

/** A cluster whose agents answer as recorded, and the requests that were not. */
function recordedFleet({ version, objects, answers }: AgentRecording): { readonly fleet: FakeFleetOptions; readonly unknown: string[] } {
  const byRequest = new Map(answers.map((answer) => [`${answer.node} ${answer.key}`, answer]));
  const nodes = [...new Set(answers.map(({ node }) => node))].toSorted();
  const unknown: string[] = [];
  const single = Object.entries(objects).flatMap(([path, items]) =>
    items.flatMap((item) => {
      const { name, namespace } = item['metadata'] as { readonly name: string; readonly namespace?: string };
      return path === '/api/v1/pods' ? [[`/api/v1/namespaces/${namespace}/pods/${name}`, item] as const] : [];
    }),
  );
  const fleet: FakeFleetOptions = {
    agents: nodes.map((node) => ({ node, image: `seine.invalid/agent:${version}`, reply: { answer: '{}' } })),
    objects,
    single: Object.fromEntries(single),
    recorded: (node, method, target) => {
      const key = `${node} ${requestKey(method, target)}`;
      const found = byRequest.get(key);
      if (!found) unknown.push(key);
      return found;
    },
  };
  return { fleet, unknown };
}

describe.each(recordedReleases)('agents of %s', (version) => {
  const recording = readRecording(version);
  const { fleet, unknown } = recordedFleet(recording);
  let opened: OpenPage;
  beforeAll(async () => {
    const { browser, folder } = chromium();
    opened = await openPage(browser, folder, fleet);
  });
  afterAll(async () => {
    await opened?.close();
  });

  it.each(Object.keys(releaseViews) as ReleaseViewName[])(
    'answer the view: %s',
    async (name) => {
      const { page, origin, errors } = opened;
      const view = releaseViews[name];
      await page.goto(origin + view.address(recording.atMs));
      if ('act' in view) await view.act(page);
      await page.locator(view.element).first().waitFor({ timeout: PATIENCE_MS });
      const main = (await page.locator('main').textContent()) ?? '';
      for (const text of shown[name]) expect(main).toMatch(text);
      expect(main).not.toMatch(/did not answer|does not answer|older release/);
      expect(await violations(page)).toEqual([]);
      expect(errors).toEqual([]);
      expect(unknown, `not recorded: node test/ui/record-agents.ts ${version}`).toEqual([]);
    },
    PATIENCE_MS * 2,
  );
});
