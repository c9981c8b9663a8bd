import { expect, it } from 'vitest';
import { browserOfFile } from '../ui/browser-of-file.ts';
import { launchBrowser, openPage, violations } from '../ui/open-page.ts';
import { hostile, shop } from '../ui/shop.ts';

/** Short form of `npm run test:ui`. */
const chromium = browserOfFile();

it('names the package of a browser that is missing', async () => {
  await expect(launchBrowser('/usr/bin/no-browser')).rejects.toThrow(
    "there is no /usr/bin/no-browser: install Debian's package chromium-headless-shell",
  );
});

it('shows a view in Chromium, with strict headers, without violations of WCAG 2.2 AA, and with hostile names as text', async () => {
  const { browser, folder } = chromium();
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
