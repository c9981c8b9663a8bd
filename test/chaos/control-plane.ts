import { join } from 'node:path';
import { kubernetesVersion } from '../../build/kubernetes/programs.mjs';
import { run } from './host.ts';
import { root } from './lab.ts';

const buildMs = 1_800_000;

/** Arguments of the command line: `--kubernetes` without a version means the newest. */
export function withVersion(words: readonly string[]): string[] {
  return words.flatMap((word, at) => (word === '--kubernetes' && !/^\d/.test(words[at + 1] ?? '') ? [word, kubernetesVersion()] : [word]));
}

/** Builds it if absent: a lab would not wait for that. */
export async function buildControlPlane(version: string): Promise<void> {
  await run(process.execPath, [join(root, 'build', 'kubernetes', 'build.mjs'), '--control-plane', version], { timeoutMs: buildMs });
}
