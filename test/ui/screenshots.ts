/**
 * `npm run docs:screenshots`: pictures of the page in docs/images, from a lab: a shop of three pods, two policies, and connections of which
 * one is denied, in both colour schemes.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { openUi } from '../../src/seinectl/ui/serve-ui.ts';
import { launchBrowser } from './open-page.ts';
import { digestOfView, digestsFile, type PictureName } from './picture-sources.ts';

const root = resolve(import.meta.dirname, '../..');
const images = join(root, 'docs/images');
const dir = mkdtempSync(join(tmpdir(), 'seine-shots-'));
const kubeconfig = join(dir, 'kubeconfig');

/** Name, address and an element of the answer. */
const shots = [
  ['now', '/', '.figures'],
  ['traffic', '/?view=traffic&namespace=shop', '.picture'],
  ['timeline', '/?view=timeline&kind=pod&name=shop%2Fdb', '.events'],
  ['trace', '/?view=trace&from=shop%2Fweb&to=shop%2Fdb&port=80&family=ipv4', '.path'],
  ['policy', '/?view=policy&namespace=shop&source=shop%2Fapi&destination=shop%2Fdb', '.matrix'],
  ['simulator', '/?view=simulator&lesson=first-policy&from=shop%2Fweb&to=shop%2Fdb&port=5432&family=ipv4', '.path'],
] as const satisfies readonly (readonly [PictureName, string, string])[];

const policies = ['default-deny', 'db-clients'].map((name) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name, namespace: 'shop' },
  spec:
    name === 'default-deny'
      ? { podSelector: {}, policyTypes: ['Ingress'] }
      : {
          podSelector: { matchLabels: { run: 'db' } },
          policyTypes: ['Ingress'],
          ingress: [{ from: [{ podSelector: { matchLabels: { run: 'api' } } }], ports: [{ port: 80 }] }],
        },
}));

const lab = (...words: readonly string[]): string =>
  execFileSync(process.execPath, [join(root, 'bin/seine-lab.mjs'), ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
const kubectl = (words: readonly string[], input = ''): string =>
  execFileSync('kubectl', [...words], { encoding: 'utf8', input, env: { ...process.env, KUBECONFIG: kubeconfig } });

function openShop(): void {
  lab('up', '--dir', dir, '--nodes', '3');
  kubectl(['create', 'namespace', 'shop']);
  for (const name of ['web', 'api', 'db']) kubectl(['-n', 'shop', 'run', name, '--image=responder']);
  for (const policy of policies) kubectl(['apply', '-f', '-'], JSON.stringify(policy));
  kubectl(['-n', 'shop', 'wait', '--for=condition=Ready', 'pod', '--all', '--timeout=60s']);
  const live = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'seine-live' }, data: { 'flowLog.enabled': 'true' } };
  kubectl(['-n', 'seine-system', 'apply', '-f', '-'], JSON.stringify(live));
  for (let turn = 1; !isRecorded(); turn++) {
    if (turn > TURNS_MAX) throw new Error('the flow log has no connections');
    for (const [from, to] of callers) openConnection(from, to);
  }
}

/** A connection that is allowed, and one that policies deny. */
const callers = [
  ['api', 'db'],
  ['web', 'db'],
] as const;
const TURNS_MAX = 30;

function openConnection(from: string, to: string): void {
  const address = kubectl(['-n', 'shop', 'get', 'pod', to, '-o', 'jsonpath={.status.podIP}']);
  try {
    lab('exec', '--dir', dir, `shop/${from}`, '--', 'curl', '--silent', '--max-time', '2', `http://${address}`);
  } catch {
    // It is denied: its packets are dropped, and counted.
  }
}

/** Reports whether the flow logs, which agents turn on when they read the ConfigMap, have both verdicts. */
function isRecorded(): boolean {
  const command = [join(root, 'bin/seinectl.mjs'), 'flows', 'matrix', '--kubeconfig', kubeconfig, '-o', 'json'];
  const { stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' });
  return ['"allowed"', '"denied"'].every((verdict) => stdout.includes(verdict));
}

async function takeShots(): Promise<void> {
  mkdirSync(images, { recursive: true });
  const server = await openUi({ kubeconfig, agentNamespace: 'seine-system', port: 0, open: false }, {});
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage({ viewport: { width: 1_200, height: 700 } });
    await page.goto(server.url);
    for (const [name, address, element] of shots)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await page.goto(`http://127.0.0.1:${server.port}${address}`);
        await page.locator(element).waitFor();
        await page.screenshot({ path: join(images, `page-${name}-${colorScheme}.png`), fullPage: true });
      }
    const digests = await Promise.all(shots.map(async ([name]) => [name, await digestOfView(name)] as const));
    writeFileSync(digestsFile, `${JSON.stringify(Object.fromEntries(digests), undefined, 2)}\n`);
  } finally {
    await browser.close();
    server.close();
  }
}

try {
  openShop();
  await takeShots();
} finally {
  lab('down', '--dir', dir);
  rmSync(dir, { recursive: true, force: true });
}
