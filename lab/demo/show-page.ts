import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../machine/installation.ts';

/**
 * Runs `seinectl ui` on the lab until it ends or the signal aborts. It prints its address, and opens it where there is a browser.
 *
 * @returns its exit code @throws Error if the program cannot be started
 */
export async function showPage(
  kubeconfig: string,
  signal: AbortSignal,
  program = join(packageRoot, 'bin', 'seinectl.mjs'),
): Promise<number> {
  const page = spawn(process.execPath, [program, 'ui', '--kubeconfig', kubeconfig], { stdio: ['ignore', 'inherit', 'inherit'] });
  // An interrupt of the terminal reaches both processes; any other signal only this one.
  const end = (): void => void page.kill('SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  try {
    return await new Promise((resolve, reject) => page.once('error', reject).once('close', (code) => resolve(code ?? 0)));
  } finally {
    signal.removeEventListener('abort', end);
  }
}
