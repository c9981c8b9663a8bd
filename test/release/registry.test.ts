import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { builtProgram } from '../../build/go/programs.mjs';
import { run } from '../../lab/machine/process.ts';
import { startLocalRegistry } from '../support/local-registry.ts';

let folder = '';
const signal = AbortSignal.timeout(300_000);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-registry-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it.each(['127.0.0.1', '::1'])('serves artefacts on a free port of %s, and keeps them over a restart', async (ip) => {
  const crane = await builtProgram('crane');
  const first = await startLocalRegistry(folder, { ip }, signal);
  const repository = `${first.address}/seine/thing`;
  await run(crane, ['append', '--insecure', '--oci-empty-base', '--new_layer', '/dev/null', '--new_tag', `${repository}:1`], {}, signal);
  const digest = await run(crane, ['digest', '--insecure', `${repository}:1`], {}, signal);
  await first.close();
  const second = await startLocalRegistry(folder, { ip }, signal);
  expect(await run(crane, ['digest', '--insecure', `${second.address}/seine/thing:1`], {}, signal)).toBe(digest);
  await second.close();
});
