import { afterEach, describe, expect, it } from 'vitest';
import { fakeStatus } from '../support/fake-fleet.ts';
import { browserOfFile } from './browser-of-file.ts';
import { type OpenPage, openPage, violations } from './open-page.ts';
import { hostile, packet as probed, shop, trafficOff } from './shop.ts';

const chromium = browserOfFile();
const open: OpenPage[] = [];

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function shown(options: Parameters<typeof openPage>[2] = shop): Promise<OpenPage> {
  const { browser, folder } = chromium();
  const opened = await openPage(browser, folder, options);
  open.push(opened);
  return opened;
}

/** Address of each view with an answer, and an element of the answer. */
const views = {
  now: ['/', '.figures'],
  trace: ['/?view=trace&from=shop%2Fweb-0&to=shop%2Fdb-0&port=5432', '.path'],
  policy: ['/?view=policy&namespace=shop&source=shop%2Fapi&destination=shop%2Fdb', '[aria-label="Use of these connections"] ul'],
  pod: ['/?view=explain&kind=pod&name=shop%2Fweb-0', '.lines'],
  node: ['/?view=explain&kind=node&name=node-2', '.lines'],
  timeline: ['/?view=timeline&kind=service&name=shop%2Fdb&since=2026-11-29T14%3A00%3A00Z', '.events'],
  traffic: ['/?view=traffic', '.matrix'],
  'traffic of a namespace': ['/?view=traffic&namespace=shop', '.number'],
  'connections of a row': [
    '/?view=traffic&namespace=shop&source=shop%2Fweb&destination=shop%2Fdb&verdict=denied&port=5432&protocol=TCP',
    '.card table',
  ],
  'connections of a row without records': ['/?view=traffic&namespace=shop&source=shop%2Fweb&destination=shop%2Fapi', '.card .badge'],
  'traffic that a name has not': ['/?view=traffic&namespace=shop&find=nothing', '.badge'],
  'traffic of a false period': ['/?view=traffic&for=2d', '.notice'],
  'trace with a probe': ['/?view=trace&from=shop%2Fweb-0&to=shop%2Fdb-0&port=5432&probe=true', '.path'],
  'trace at a time that has no inputs': ['/?view=trace&from=shop%2Fweb-0&to=shop%2Fdb-0&at=30m', '.notice'],
  'timeline of a past period': [
    '/?view=timeline&kind=pod&name=shop%2Fweb-0&since=2026-11-29T14%3A00%3A00Z&until=2026-11-29T14%3A10%3A00Z',
    '.events',
  ],
  'timeline of a false period': ['/?view=timeline&kind=pod&name=shop%2Fweb-0&since=30m&until=2h', '.notice'],
  'timeline by node': ['/?view=timeline&kind=service&name=shop%2Fdb&since=2h&order=node', '.events'],
  'timeline without a name': ['/?view=timeline', 'form'],
  'a timeline of an unknown kind of name': ['/?view=timeline&kind=pod&name=..%2Fx', '.notice'],
  'trace without a question': ['/?view=trace', 'form'],
  'policy without a namespace': ['/?view=policy', 'form'],
  'an unknown pod': ['/?view=explain&kind=pod&name=shop%2Fnone', '.notice'],
  'a node that does not answer': ['/?view=explain&kind=node&name=node-3', '.notice'],
} as const;

const proposedPolicy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db-clients, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: web}}}]
      ports: [{protocol: TCP, port: 5432}]
`;

describe.each(Object.keys(views) as (keyof typeof views)[])('the view: %s', (name) => {
  const [address, element] = views[name];
  it('has no violation of WCAG 2.2 AA, no error, and no content beside the window, in both schemes and widths', async () => {
    const { page, origin, errors } = await shown();
    for (const colorScheme of ['light', 'dark'] as const)
      for (const width of [1_280, 360]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await page.goto(origin + address);
        await page.locator(element).first().waitFor();
        expect(await violations(page), `${colorScheme} ${width}`).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${colorScheme} ${width}`).toBe(true);
      }
    expect(await page.evaluate('window.hostile')).toBeUndefined();
    expect(errors).toEqual([]);
  });
});

it('shows readiness, problems with remedies, drops, and agents that do not answer', async () => {
  const { page } = await shown();
  await page.locator('.figures').waitFor();
  const main = await page.locator('main').textContent();
  for (const expected of ['2 of 3', '1 agent of 3 did not answer', 'No such file or directory', 'run seinectl diff on this node', '2,408'])
    expect(main).toContain(expected);
  expect(main).toContain('18,014,398,509,481,986'); // twice 2^53 + 1
  expect(main).toContain(`entries are refused: ${hostile.markup}`);
});

it('traces from the form, keeps the question in the address, and names the drop and its remedy', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=trace`);
  await page.getByLabel('From').fill('shop/web-0');
  await page.getByLabel('To', { exact: true }).fill('shop/db-0');
  await page.getByLabel('Port').fill('5432');
  await page.getByRole('button', { name: 'Trace' }).click();
  await page.locator('.path').waitFor();
  expect(new URL(page.url()).searchParams.get('to')).toBe('shop/db-0');
  expect(await page.locator('.drop').textContent()).toContain('policy.ingress, 1204 such packets so far');
  expect(await page.locator('.command code').textContent()).toBe('seinectl trace shop/web-0 shop/db-0 5432');
  await page.goBack();
  await page.locator('.path').waitFor({ state: 'detached' });
});

it('moves in the policy matrix with the arrow keys, and shows the rule of a cell', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=policy&namespace=shop`);
  await page.locator('#cell-0-0').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  expect(await page.evaluate('document.activeElement.id')).toBe('cell-1-1');
  await page.getByRole('button', { name: /^shop\/api\S* to shop\/db\S*: in part$/ }).click();
  expect(await page.locator('.card').textContent()).toContain('shop/db-clients spec.ingress[0]');
});

it('shows how much the connections of a cell were used, and where that is not known', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=policy&namespace=shop&source=shop%2Fapi&destination=shop%2Fdb`);
  const used = page.getByRole('region', { name: 'Use of these connections' });
  await used.getByText('The flow log is off.').waitFor();
  expect(await used.textContent()).toContain('1 node: node-2');
  expect(await used.locator('code').textContent()).toBe('seinectl flows --from-pod shop/api --to-pod shop/db --since 24h');
});

it('shows which connections a proposal breaks and opens, marks their cells, and says what is wrong with it', async () => {
  const { page, origin, errors } = await shown();
  await page.goto(`${origin}/?view=policy&namespace=shop`);
  await page.locator('.matrix').waitFor();
  const compute = page.getByRole('button', { name: 'Compute the effect' });
  expect(await compute.isDisabled()).toBe(true);
  const proposal = page.getByLabel('Changed or new objects');
  await proposal.fill('spec: [');
  await page.getByText('Not YAML').waitFor();
  await proposal.fill('kind: Secret');
  await compute.click();
  await page.getByRole('heading', { name: 'This cannot be answered' }).waitFor();
  await proposal.fill(proposedPolicy);
  await compute.click();
  await page.getByRole('region', { name: 'Connections that change' }).waitFor();
  const changes = await page.getByRole('region', { name: 'Connections that change' }).locator('tbody tr').allTextContents();
  expect(changes.map((text) => /breaks|opens/.exec(text)?.[0])).toEqual(['breaks', 'opens']);
  await page.getByRole('button', { name: /^shop\/api\S* to shop\/db\S*: in part, connections break$/ }).waitFor();
  await page.getByRole('button', { name: /^shop\/web\S* to shop\/db\S*: denied, connections open$/ }).waitFor();
  const again = page.waitForRequest((request) => request.url().includes('/api/whatif'));
  await compute.click();
  await again; // the same text: the cluster may have changed
  await page.getByText(/^Computed \d/).waitFor();
  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [1_280, 360]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      expect(await violations(page), `${colorScheme} ${width}`).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${colorScheme} ${width}`).toBe(true);
    }
  await page.getByLabel('Objects to delete').fill('networkpolicy/shop/default-deny');
  await compute.click();
  await page.getByText('seinectl whatif -f FILE --delete networkpolicy/shop/default-deny').waitFor();
  expect(new URL(page.url()).searchParams.get('delete')).toBe('networkpolicy/shop/default-deny');
  await page.getByRole('button', { name: 'Clear the result' }).click();
  await page.getByRole('button', { name: /^shop\/web\S* to shop\/db\S*: denied$/ }).waitFor();
  expect(errors).toEqual([]);
});

it('shows the last connections of a row, with rule, policy, reason and rate, and the same for a line of the picture', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=traffic&namespace=shop`);
  await page.locator('.picture').waitFor();
  await page.getByRole('link', { name: '12 connections from shop/web to shop/db, denied: show the last' }).click();
  const card = page.getByRole('region', { name: 'Last connections', exact: true });
  await card.locator('tbody tr').waitFor();
  const row = await card.locator('tbody tr').textContent();
  for (const expected of [
    '2026-11-29 14:03:00.000',
    'shop/web-0:40000',
    'ingress denied by shop/default-deny',
    'and 11 packets like it',
    hostile.script,
  ])
    expect(row).toContain(expected);
  expect(await card.locator('code').textContent()).toBe(
    'seinectl flows --from-pod shop/web --to-pod shop/db --to-port 5432 --verdict denied --since 10m',
  );
  expect(await card.textContent()).toContain('1 agent of 3 did not answer');
  expect(await page.evaluate('window.hostile')).toBeUndefined();
  await page.getByRole('link', { name: 'Close' }).click();
  await card.waitFor({ state: 'detached' });
  await page.locator('.edge').filter({ hasText: 'shop/api to shop/db' }).locator('.target').dispatchEvent('click');
  await card.getByText('closed').waitFor();
  expect(await card.textContent()).toContain('11.1 kB');
  expect(new URL(page.url()).searchParams.get('verdict')).toBeNull();
});

it('shows what happened to a Service on all nodes, by kind and by node, and names agents that do not answer', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=explain&kind=pod&name=shop%2Fweb-0`);
  await page.getByRole('link', { name: 'What happened to it' }).click();
  await page.locator('.events').waitFor();
  expect(await page.locator('.events li').count()).toBe(7); // of its node alone
  await page.goto(`${origin}/?view=timeline&kind=service&name=shop%2Fdb&since=2h`);
  await page.locator('.events').waitFor();
  expect(await page.locator('.events li').count()).toBe(8);
  expect(await page.locator('.notice').textContent()).toContain('1 agent of 3 did not answer');
  expect(await page.locator('.events').textContent()).toContain(hostile.markup);
  await page.getByLabel('Kind of event').selectOption('!');
  expect(await page.locator('.events li').count()).toBe(2);
  expect(await page.locator('.events').textContent()).toContain('failure: denied ingress');
  expect(new URL(page.url()).searchParams.get('only')).toBe('!');
  await page.goBack();
  await page.getByLabel('Order').selectOption('node');
  await page.getByRole('heading', { name: 'Several nodes' }).waitFor();
  expect(await page.locator('.command code').textContent()).toBe('seinectl timeline service shop/db --cluster --since 2h');
});

it('has lanes of subjects over time, zooms by a drag and by buttons, and leads to a trace at that time', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=timeline&kind=pod&name=shop%2Fweb-0&since=2026-11-29T14%3A00%3A00Z&until=2026-11-29T14%3A10%3A00Z`);
  const picture = page.getByRole('img', { name: 'Events by subject over time' });
  await picture.waitFor();
  for (const lane of ['pod/shop/web-0', 'node/node-1', 'policy/shop/default-deny']) expect(await picture.textContent()).toContain(lane);
  expect(await page.locator('.mark.bad').count()).toBe(3); // in the lanes of the pod, the node, and the other end
  const box = await picture.boundingBox();
  if (!box) throw new Error('the picture has no place');
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + box.height / 2);
  await page.mouse.up();
  await page.waitForURL(/since=2026-11-29T14%3A03/);
  expect(new URL(page.url()).searchParams.get('until')).toMatch(/^2026-11-29T14:06/);
  await page.getByRole('button', { name: 'Zoom out' }).click();
  await page.waitForURL(/since=2026-11-29T14%3A02/);
  await page.getByRole('button', { name: 'Up to now' }).click();
  await page.waitForURL((url) => !url.searchParams.has('until'));
  await page.getByRole('link', { name: /^14:05:44.003 trace a packet at this time$/ }).click();
  expect(await page.getByLabel('At', { exact: true }).inputValue()).toBe('2026-11-29T14:05:44.003Z');
  expect(await page.getByLabel('From').inputValue()).toBe('shop/web-0');
  expect(await page.getByLabel('Send a probe').isDisabled()).toBe(true);
});

it('sends a probe if the form asks for it, and has its verdict beside the others', async () => {
  const end = { what: 'pod', to: 'pod shop/db-0', packet: probed, table: 'output' };
  const probe = { family: 'ipv4', number: 1, packet: probed, end, notes: [`a note ${hostile.markup}`], milliseconds: 3 };
  const { page, origin, fleet } = await shown({
    ...shop,
    paths: { ...shop.paths, '/v1/probe': JSON.stringify({ node: 'node-1', probes: [probe] }) },
  });
  await page.goto(`${origin}/?view=trace&from=shop%2Fweb-0&to=shop%2Fdb-0&port=5432`);
  await page.locator('.path').waitFor();
  expect(fleet.requests.filter((path) => path.startsWith('/v1/probe'))).toEqual([]);
  await page.getByLabel('Send a probe').check();
  await page.getByRole('button', { name: 'Trace' }).click();
  await page.getByText('By a probe').waitFor();
  const verdicts = await page.locator('.verdicts').textContent();
  expect(verdicts).toContain('node-1: reached the output to pod shop/db-0');
  await page.getByRole('heading', { name: 'The verdicts differ' }).waitFor(); // the flows deny it
  expect(await page.locator('.command code').textContent()).toBe('seinectl trace shop/web-0 shop/db-0 5432 --probe');
  expect(await violations(page)).toEqual([]);
});

it('leads from the matrix of namespaces to the connections of one, with verdict, port, rule and numbers', async () => {
  const { page, origin } = await shown();
  await page.goto(`${origin}/?view=traffic`);
  await page.getByRole('button', { name: 'ops to shop: 42 connections, 2 denied' }).waitFor();
  const main = await page.locator('main').textContent();
  for (const expected of [
    'The flow log is off on 1 node',
    '1 agent of 3 did not answer',
    '412 openings not recorded',
    '7 connections between',
  ])
    expect(main).toContain(expected);
  await page.locator('#cell-0-0').focus();
  await page.keyboard.press('ArrowDown');
  expect(await page.evaluate('document.activeElement.id')).toBe('cell-1-0');
  await page.getByRole('button', { name: 'ops to shop: 42 connections, 2 denied' }).click();
  await page.getByText('names with “ops/”').waitFor();
  const rows = await page.locator('tbody tr').allTextContents();
  expect(rows.map((row) => row.replace(/ connections from .*?: show the last[\d.]+\/(?:s|min|h)/, ' at a rate, '))).toEqual([
    '✓ allowed40 at a rate, ops/prometheusshop/api9090/TCPno policy',
    '✕ refused2 at a rate, ops/prometheusshop/api22/TCPshop/default-deny',
  ]);
  await page.goto(`${origin}/?view=traffic&namespace=shop`);
  await page.locator('.picture').waitFor();
  expect(await page.locator('.picture .outcome').allTextContents()).toEqual(
    expect.arrayContaining(['✕ 12 denied', '◐ 2 of 42 denied', '! 30 would be denied']),
  );
  expect(await page.locator('table').textContent()).toContain('9.2 MB');
  expect(await page.locator('.command code').textContent()).toBe('seinectl flows matrix -n shop --for 10m');
});

it('shows how to turn the flow log on where it is off', async () => {
  const { pathsOfNode: _, ...without } = shop;
  const { page, origin } = await shown({ ...without, paths: { ...shop.paths, '/v1/flow-log/summary': trafficOff } });
  await page.goto(`${origin}/?view=traffic`);
  await page.getByRole('heading', { name: 'The flow log is off' }).waitFor();
  expect(await page.locator('main').textContent()).toContain('kubectl -n seine-system patch configmap seine-live');
  expect(await violations(page)).toEqual([]);
});

it('shows the busiest of many workloads, and the rest as others, at once', async () => {
  const items = Array.from({ length: 500 }, (_, at) => ({
    ...{
      source: `shop/w-${at}`,
      destination: `shop/w-${(at * 7) % 500}`,
      protocol: 'TCP',
      port: 80,
      verdict: 'allowed',
      connections: 600 - at,
    },
  }));
  const { pathsOfNode: _, ...without } = shop;
  const sums = JSON.stringify({ ...JSON.parse(trafficOff), state: { ...JSON.parse(trafficOff).state, enabled: true }, items });
  const { page, origin } = await shown({ ...without, paths: { ...shop.paths, '/v1/flow-log/summary': sums } });
  await page.goto(`${origin}/?view=traffic&namespace=shop`);
  await page.locator('.picture').waitFor();
  expect(await page.locator('tbody tr').count()).toBeLessThanOrEqual(200);
  expect(await page.locator('main').textContent()).toContain('(420 others)');
  await page.getByLabel('Workload').fill('w-499');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText('names with “w-499”').waitFor();
  expect(await page.locator('tbody tr').count()).toBe(2);
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
});

it('explains a timeline without events', async () => {
  const { pathsOfNode: _, ...without } = shop;
  const { page, origin } = await shown({ ...without, paths: { ...shop.paths, '/v1/timeline': '' } });
  await page.goto(`${origin}/?view=timeline&kind=pod&name=shop%2Fweb-0`);
  await page.getByText('No events').waitFor();
  expect(await violations(page)).toEqual([]);
});

it('shows how to turn the history on where it is off', async () => {
  const { page, origin } = await shown({ ...shop, unavailable: { '/v1/timeline': 'nothing is recorded: history.size is 0' } });
  await page.goto(`${origin}/?view=timeline&kind=service&name=shop%2Fdb`);
  await page.getByRole('heading', { name: 'History is off on 2 nodes' }).waitFor();
  expect(await page.locator('main').textContent()).toContain('1 agent of 3 did not answer');
  expect(await violations(page)).toEqual([]);
});

it('names the right that a user without exec lacks', async () => {
  const { page } = await shown({ ...shop, agents: shop.agents.map((agent) => ({ ...agent, reply: 'refused' })) });
  await page.locator('.notice').waitFor();
  expect(await page.locator('.notice').textContent()).toContain('create and get pods/exec in namespace seine-system');
  expect(await violations(page)).toEqual([]);
});

it('shows the last answer, greyed, with its age while the API server is away', async () => {
  const { page, fleet } = await shown();
  await page.locator('.figures').waitFor();
  await fleet.close();
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.locator('.old').waitFor();
  expect(await page.locator('.notice').first().textContent()).toMatch(/This is \d+ s old/);
  expect(await page.locator('.figures').textContent()).toContain('2 of 3');
  expect(await violations(page)).toEqual([]);
});

it('reports false data of an agent as no answer', async () => {
  const liar = { node: 'node-1', reply: { answer: JSON.stringify({ readiness: 7, problems: hostile.markup }) } } as const;
  const { page } = await shown({ ...shop, agents: [liar, { node: 'node-2', reply: { answer: fakeStatus('node-2') } }] });
  await page.locator('.figures').waitFor();
  expect(await page.locator('main').textContent()).toContain('its answer is not a status');
});

it('shows a cluster of 1,000 nodes', async () => {
  const agents = Array.from({ length: 1_000 }, (_, at) => ({ node: `node-${at}`, reply: { answer: fakeStatus(`node-${at}`) } }));
  const sums = shop.pathsOfNode?.['node-1 /v1/flow-log/summary'] ?? '';
  const { page, origin } = await shown({ agents, paths: { '/v1/drops': shop.paths?.['/v1/drops'] ?? '', '/v1/flow-log/summary': sums } });
  page.setDefaultTimeout(120_000); // the simulated agents share this process and its CPU
  const firstMs = performance.now();
  await page.locator('.figures').waitFor();
  const seen = { firstMs: Math.round(performance.now() - firstMs), refreshMs: 0, trafficMs: 0 };
  expect(await page.locator('.figures').textContent()).toContain('1000 of 1000');
  const answered = page.waitForResponse((response) => response.url().endsWith('/api/now'));
  await page.getByRole('button', { name: 'Refresh' }).click();
  const refreshMs = performance.now();
  await answered;
  seen.refreshMs = Math.round(performance.now() - refreshMs);
  const trafficMs = performance.now();
  await page.goto(`${origin}/?view=traffic`);
  await page.locator('.matrix').waitFor();
  seen.trafficMs = Math.round(performance.now() - trafficMs);
  expect(await page.locator('main').textContent()).toContain('These are nodes 1 to 500 of 1000');
  await page.locator('#first').selectOption('500');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText('These are nodes 501 to 1000 of 1000').waitFor();
  console.log('1,000 nodes', JSON.stringify(seen));
});
