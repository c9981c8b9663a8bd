/**
 * `node test/ui/record-agents.ts VERSION`: opens each view of the page on a lab whose agents are those of a release, and keeps what they answer
 * in test/fixtures/agents. Needs root, and the release in the history.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { dirname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { planOf } from '../../lab/up.ts';
import { builtRelease, releaseOf } from '../support/releases.ts';
import { LabShop } from './lab-shop.ts';
import { launchBrowser, showPage } from './open-page.ts';
import { type AgentRecording, recordingFile, requestKey } from './recorded-agents.ts';
import { releaseViews } from './release-views.ts';

const PATIENCE_MS = 120_000;
const lists = [
  '/api/v1/pods',
  '/api/v1/namespaces',
  '/api/v1/nodes',
  '/api/v1/services',
  '/apis/discovery.k8s.io/v1/endpointslices',
  '/apis/networking.k8s.io/v1/networkpolicies',
];

type Answer = AgentRecording['answers'][number];

/** Listens in place of an agent's socket, passes requests on, and keeps answers. The last one of a request counts. */
function recordSocket(node: string, socketPath: string, answers: Map<string, Answer>): Promise<Server> {
  const real = `${socketPath}.real`;
  renameSync(socketPath, real);
  const server = createServer((asked, response) => {
    const { method = 'GET', url = '/', headers } = asked;
    const forwarded = request({ socketPath: real, method, path: url, headers }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on('data', (piece: Buffer) => pieces.push(piece));
      answer.on('end', () => {
        const body = Buffer.concat(pieces);
        const status = answer.statusCode ?? 0;
        const key = requestKey(method, url);
        answers.set(`${node} ${key}`, { node, key, status, body: body.toString('utf8') });
        response.writeHead(status, { 'content-type': answer.headers['content-type'] ?? 'text/plain' }).end(body);
      });
    });
    forwarded.on('error', () => response.destroy());
    asked.pipe(forwarded);
  });
  server.keepAliveTimeout = PATIENCE_MS; // an agent's connections stay open, too
  return new Promise((resolve) => server.listen(socketPath, () => resolve(server)));
}

async function record(version: string, shop: LabShop): Promise<AgentRecording> {
  const plan = planOf(shop.dir);
  const answers = new Map<string, Answer>();
  const servers = await Promise.all(plan.nodes.map(({ name }) => recordSocket(name, nodePaths(plan.dir, name).apiSocket, answers)));
  const api = new KubeApi(await readKubeconfig(shop.kubeconfig));
  const browser = await launchBrowser();
  const { page, origin, close } = await showPage(browser, { kubeconfig: shop.kubeconfig });
  const atMs = Date.now();
  try {
    for (const [name, view] of Object.entries(releaseViews)) {
      console.log(name);
      await page.goto(origin + view.address(atMs));
      if ('act' in view) await view.act(page);
      await page.locator(view.element).first().waitFor({ timeout: PATIENCE_MS });
      if (/did not answer|does not answer/.test((await page.locator('main').textContent()) ?? ''))
        throw new Error(`${name}: an agent did not answer`);
    }
    const listed = lists.map(async (path) => {
      const { items } = (await api.send({ method: 'GET', path }, AbortSignal.timeout(PATIENCE_MS))) as { items: Record<string, unknown>[] };
      return [path, items] as const;
    });
    return { version, atMs, objects: Object.fromEntries(await Promise.all(listed)), answers: [...answers.values()] };
  } finally {
    await close();
    await browser.close();
    api.close();
    for (const server of servers) server.close().closeAllConnections();
  }
}

const [version = ''] = process.argv.slice(2);
const { agent } = await builtRelease(releaseOf(version));
const shop = new LabShop();
try {
  shop.open(3, agent);
  const recording = await record(version, shop);
  const file = recordingFile(version);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, gzipSync(JSON.stringify(recording), { level: 9 }));
  for (const { node, key, status, body } of recording.answers) console.log(status, body.length, node, key);
} finally {
  shop.close();
}
