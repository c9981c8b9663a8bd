/**
 * `npm run docs:screenshots`: pictures of the page in docs/images, from a lab: a shop of three pods, two policies, and connections of which
 * one is denied, in both colour schemes.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openUi } from '../../src/seinectl/ui/serve-ui.ts';
import { LabShop } from './lab-shop.ts';
import { launchBrowser } from './open-page.ts';
import { digestOfView, digestsFile, type PictureName } from './picture-sources.ts';

const root = resolve(import.meta.dirname, '../..');
const images = join(root, 'docs/images');
const shop = new LabShop();

/** Name, address and an element of the answer. */
const shots = [
  ['now', '/', '.figures'],
  ['traffic', '/?view=traffic&namespace=shop', '.picture'],
  ['timeline', '/?view=timeline&kind=pod&name=shop%2Fdb', '.events'],
  ['trace', '/?view=trace&from=shop%2Fweb&to=shop%2Fdb&port=80&family=ipv4', '.path'],
  ['policy', '/?view=policy&namespace=shop&source=shop%2Fapi&destination=shop%2Fdb', '[aria-label="Use of these connections"] ul.lines'],
  ['simulator', '/?view=simulator&lesson=first-policy&from=shop%2Fweb&to=shop%2Fdb&port=5432&family=ipv4', '.path'],
] as const satisfies readonly (readonly [PictureName, string, string])[];

async function takeShots(): Promise<void> {
  mkdirSync(images, { recursive: true });
  const server = await openUi({ kubeconfig: shop.kubeconfig, agentNamespace: 'seine-system', port: 0, open: false }, {});
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
  shop.open(3);
  await takeShots();
} finally {
  shop.close();
}
