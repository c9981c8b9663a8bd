import type { Page } from 'playwright-core';

/** A view that is asked of agents of a release, and an element of its answer. */
interface ReleaseView {
  /** @param atMs time of the recording */
  readonly address: (atMs: number) => string;
  readonly element: string;
  /** Steps of the user after the address is open. */
  readonly act?: (page: Page) => Promise<void>;
}

const cell = 'source=shop%2Fapi&destination=shop%2Fdb';
const traced = 'from=shop%2Fweb&to=shop%2Fdb&port=80&family=ipv4';
const time = (ms: number): string => encodeURIComponent(new Date(ms).toISOString());
const HALF_HOUR_MS = 1_800_000;
const period = (atMs: number): string => `since=${time(atMs - HALF_HOUR_MS)}&until=${time(atMs)}`;

const proposal = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db-clients, namespace: shop}
spec:
  podSelector: {matchLabels: {run: db}}
  policyTypes: [Ingress]
`;

async function computeEffect(page: Page): Promise<void> {
  await page.getByLabel('Changed or new objects').fill(proposal);
  await page.getByRole('button', { name: 'Compute the effect' }).click();
}

/** Views that ask agents, in the order in which they are recorded. */
export const releaseViews = {
  now: { address: () => '/', element: '.figures' },
  traffic: { address: () => '/?view=traffic&namespace=shop', element: '.picture' },
  connections: { address: () => `/?view=traffic&namespace=shop&${cell}`, element: '.card table' },
  use: { address: () => `/?view=policy&namespace=shop&${cell}`, element: '[aria-label="Use of these connections"] ul.lines' },
  'what if': {
    address: () => '/?view=policy&namespace=shop',
    element: '[aria-label="Connections that change"] tbody tr',
    act: computeEffect,
  },
  trace: { address: () => `/?view=trace&${traced}`, element: '.path' },
  probe: { address: () => `/?view=trace&${traced}&probe=true`, element: '.path' },
  'trace at a time': { address: (atMs) => `/?view=trace&${traced}&at=${time(atMs)}`, element: '.path' },
  pod: { address: () => '/?view=explain&kind=pod&name=shop%2Fdb', element: '.lines' },
  service: { address: () => '/?view=explain&kind=service&name=shop%2Fdb', element: '.lines' },
  node: { address: () => '/?view=explain&kind=node&name=node-1', element: '.lines' },
  timeline: { address: (atMs) => `/?view=timeline&kind=pod&name=shop%2Fdb&${period(atMs)}`, element: '.events' },
} as const satisfies Readonly<Record<string, ReleaseView>>;

export type ReleaseViewName = keyof typeof releaseViews;
