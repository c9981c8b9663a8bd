import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { openUi } from '../../src/seinectl/ui/serve-ui.ts';
import type { UiFlags } from '../../src/seinectl/ui/ui-flags.ts';
import { FakeFleet, type FakeFleetOptions } from '../support/fake-fleet.ts';

/** Path of Debian's package `chromium-headless-shell`. */
const CHROMIUM = '/usr/bin/chromium-headless-shell';

/** @throws Error that names the package if the browser is not installed */
export async function launchBrowser(executablePath = CHROMIUM): Promise<Browser> {
  if (!existsSync(executablePath))
    throw new Error(
      `there is no ${executablePath}: install Debian's package chromium-headless-shell, as \`npm test\` and \`npm run test:ui\` do`,
    );
  // Tests run as root, where Chromium has no sandbox of its own.
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
}

export interface OpenPage extends ShownPage {
  readonly fleet: FakeFleet;
}

interface ShownPage {
  readonly page: Page;
  /** Address without the token. */
  readonly origin: string;
  /** Errors of scripts, and violations of the Content Security Policy. */
  readonly errors: readonly string[];
  close(): Promise<void>;
}

/** Opens `seinectl ui` on a fake cluster, in a browser. */
export async function openPage(browser: Browser, folder: string, options: FakeFleetOptions): Promise<OpenPage> {
  const fleet = new FakeFleet(options);
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${await fleet.listen()}` } }],
      users: [{ name: 'me', user: { token: 'secret' } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
      'current-context': 'here',
    }),
  );
  const shown = await showPage(browser, { kubeconfig });
  return {
    ...{ ...shown, fleet },
    close: async () => {
      await shown.close();
      await fleet.close();
    },
  };
}

/** Opens `seinectl ui` in a browser. */
export async function showPage(browser: Browser, source: Pick<UiFlags, 'kubeconfig' | 'bundle'>): Promise<ShownPage> {
  const server = await openUi({ ...source, agentNamespace: 'seine-system', port: 0, open: false }, {});
  const context: BrowserContext = await browser.newContext();
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy/.test(message.text())) errors.push(message.text());
  });
  await page.goto(server.url);
  return {
    ...{ page, errors, origin: `http://127.0.0.1:${server.port}` },
    close: async () => {
      await context.close();
      server.close();
    },
  };
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Returns violations of WCAG 2.2 AA that axe finds in the page as it is now. */
export async function violations(page: Page): Promise<readonly string[]> {
  // Evaluated by the debugger, which the page's Content Security Policy does not bind.
  return (await page.evaluate(`(async () => {
    ${axeSource};
    const { violations } = await axe.run(document, { runOnly: ${JSON.stringify(rules)} });
    return violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).slice(0, 3).join(', '));
  })()`)) as readonly string[];
}
