import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../lab/machine/installation.ts';
import { type RunResult, run, runAnyway } from '../../lab/machine/process.ts';

/** `seinectl` in one file, and a root with `/proc`, an empty `/run`, and nothing else: no Node, no library, no shell. */
export class EmptyRoot {
  readonly #folder = mkdtempSync(join(tmpdir(), 'seine-empty-'));

  /** Path of the file outside of the root. */
  get file(): string {
    return join(this.#folder, 'seinectl');
  }

  async build(signal: AbortSignal): Promise<void> {
    await run(process.execPath, [join(packageRoot, 'build', 'seinectl', 'build.mjs'), '--out', this.file], {}, signal);
    if (!existsSync(this.file)) throw new Error(`${this.file} was not built`);
  }

  /**
   * @param first shell commands before the root is entered, in its namespaces, among them the network's; `$root` is its path
   * @returns its output, and in `left` the remaining files of the root's `/run`
   */
  async run(args: readonly string[], signal: AbortSignal, first = ''): Promise<RunResult & { readonly left: string }> {
    const root = join(this.#folder, 'root');
    const script = `set -e
      root=${root}
      mkdir -p $root; mount -t tmpfs none $root; mkdir $root/proc $root/run; mount --rbind /proc $root/proc
      cp ${this.file} $root/seinectl
      ${first}
      code=0; env -i "$(command -v chroot)" $root /seinectl "$@" || code=$?
      ls $root/run > ${root}.left
      exit $code`;
    const options = ['--mount', '--net', 'sh', '-c', script, 'sh', ...args];
    const ran = await runAnyway('unshare', options, {}, signal);
    return { ...ran, left: await run('cat', [`${root}.left`], {}, signal) };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}
