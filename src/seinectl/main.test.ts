import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exitCodes } from './exit-codes.ts';

it.each([
  ['stderr', ['get', 'bogus'], exitCodes.usage],
  ['stdout', ['--help'], exitCodes.ok],
] as const)('has the usual exit code if no process reads %s', async (stream, args, code) => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  child[stream].destroy();
  expect(await once(child, 'close')).toEqual([code, null]);
});
