import { join } from 'node:path';
import { expect, it } from 'vitest';
import { leastBundle, wholeBundle } from '../support/shown-bundle.ts';
import { writeBundle } from '../support/written-bundle.ts';
import { browserOfFile } from './browser-of-file.ts';
import { showPage, violations } from './open-page.ts';

const chromium = browserOfFile();

it('shows each view of a support bundle, and the command that prints it', async () => {
  const { browser, folder } = chromium();
  const { page, origin, errors, close } = await showPage(browser, {
    bundle: [await writeBundle(join(folder, 'n1.tar.gz'), wholeBundle())],
  });
  try {
    for (const [address, element] of [
      ['/', '.figures'],
      ['/?view=trace&from=shop%2Fn1-0&to=shop%2Fn1-1&port=80&family=ipv4', '.path'],
      ['/?view=policy&namespace=shop', '.matrix'],
      ['/?view=explain&kind=pod&name=shop%2Fn1-0', '.lines'],
      ['/?view=timeline&kind=pod&name=shop%2Fn1-0', '.events'],
      ['/?view=traffic', '.matrix'],
    ] as const)
      for (const [colorScheme, width] of [
        ['light', 1_280],
        ['dark', 360],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await page.goto(origin + address);
        await page.locator(element).first().waitFor();
        await page.getByText('From support bundles.').waitFor();
        expect(await violations(page), `${address} ${width}`).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${address} ${width}`).toBe(true);
      }
    expect(await page.getByRole('complementary').textContent()).toMatch(
      /n1: n1\.tar\.gz, collected 2026-11-29 22:00:05 UTC .* had the \d+ entries/,
    );
    await page.getByText('No command prints this of a bundle.').waitFor();
    await page.goto(`${origin}/?view=trace&from=shop%2Fn1-0&to=shop%2Fn1-1&port=80`);
    await page.getByText('seinectl simulate --bundle n1.tar.gz trace shop/n1-0 shop/n1-1 80').waitFor();
    expect(errors).toEqual([]);
  } finally {
    await close();
  }
});

it('names the views of which an older bundle has no data', async () => {
  const { browser, folder } = chromium();
  const bundle = [await writeBundle(join(folder, 'old.tar.gz'), leastBundle(), { seine: '0.28.0' })];
  const { page, origin, close } = await showPage(browser, { bundle });
  try {
    for (const [address, view] of [
      ['/', 'Now'],
      ['/?view=traffic', 'Traffic'],
      ['/?view=timeline&kind=node&name=n1', 'Timeline'],
    ] as const) {
      await page.goto(origin + address);
      await page.getByRole('heading', { name: 'The bundle has no data for this view' }).waitFor();
      expect(await page.getByRole('alert').textContent()).toContain(`${view}: the bundle of n1 has no `);
      expect(await violations(page), address).toEqual([]);
    }
  } finally {
    await close();
  }
});
