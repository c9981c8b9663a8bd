import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launchBrowser, openPage, violations } from '../ui/open-page.ts';
import { hostile, shop } from '../ui/shop.ts';

/** Short form of `npm run test:ui`. */
let browser: Browser;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seine-ui-'));
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

it('names the package of a browser that is missing', async () => {
  await expect(launchBrowser('/usr/bin/no-browser')).rejects.toThrow(
    "there is no /usr/bin/no-browser: install Debian's package chromium-headless-shell",
  );
});

it('shows a view in Chromium, with strict headers, without violations of WCAG 2.2 AA, and with hostile names as text', async () => {
  const { page, origin, errors, close } = await openPage(browser, folder, shop);
  try {
    await page.locator('.figures').waitFor();
    expect(await page.locator('main').textContent()).toContain(hostile.markup);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violations(page), colorScheme).toEqual([]);
    }
    const answer = await page.goto(origin);
    expect(answer?.headers()['content-security-policy']).toContain("default-src 'none'");
    await page.locator('.figures').waitFor();
    expect(await page.evaluate('window.hostile')).toBeUndefined();
    expect(errors).toEqual([]);
  } finally {
    await close();
  }
});
