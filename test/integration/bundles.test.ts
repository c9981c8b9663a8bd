import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');

describe.each(['seine-agent', 'seinectl', 'seine-lab', 'install-cni'])('%s', (name) => {
  const file = join(root, 'dist', `${name}.mjs`);
  const bundle = readFileSync(file, 'utf8');

  it('starts from its bundle', async () => {
    const { stdout } = await run(process.execPath, [file, '--help']);
    expect(stdout).toMatch(/^Usage: /);
  });

  it('names an unknown option, and fails', async () => {
    await expect(run(process.execPath, [file, '--frobnicate'])).rejects.toMatchObject({
      code: expect.toSatisfy((code) => code === 1 || code === 2),
      stderr: expect.stringMatching(/unknown option '--frobnicate'/i),
    });
  });

  /** The API classes of the official client cost about 50 MB in the agent (docs/adr/0012-own-reflector.md). */
  it('contains no API class of the Kubernetes client', () => {
    expect(bundle).not.toContain('CoreV1ApiRequestFactory');
  });

  it('stays below 4 MiB', () => {
    expect(Buffer.byteLength(bundle)).toBeLessThan(4 << 20);
  });
});
