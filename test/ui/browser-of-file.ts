import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { launchBrowser } from './open-page.ts';

interface FileBrowser {
  readonly browser: Browser;
  /** Temporary folder. */
  readonly folder: string;
}

/**
 * Launches a browser before the tests of a file, and closes it after them.
 *
 * @returns function that returns it; call it in tests, or in hooks of suites
 */
export function browserOfFile(): () => FileBrowser {
  let opened: FileBrowser | undefined;
  beforeAll(async () => {
    opened = { browser: await launchBrowser(), folder: mkdtempSync(join(tmpdir(), 'seine-ui-')) };
  });
  afterAll(async () => {
    await opened?.browser.close();
    if (opened) rmSync(opened.folder, { recursive: true });
  });
  return () => {
    if (!opened) throw new Error('the browser is launched before the first test, not while tests are collected');
    return opened;
  };
}
