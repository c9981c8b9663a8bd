import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A namespace of pre-plugged ports for a test, as the plugin creates it, and the agent's configuration for it. */
export class TestPorts {
  readonly #folder = mkdtempSync('/run/seine-ports-');
  readonly path = join(this.#folder, 'netns', 'ports');
  /** Configuration as YAML in a flow mapping: `, key: value`. */
  readonly config = `, podInterface: standing, cniSocket: ${join(this.#folder, 'cni.sock')}`;

  constructor() {
    mkdirSync(join(this.#folder, 'netns'), { mode: 0o700 });
    writeFileSync(this.path, '');
    execFileSync('unshare', ['--net', 'mount', '--bind', '/proc/self/ns/net', this.path]);
  }

  /** Runs a program in it. */
  run(...words: readonly string[]): string {
    return execFileSync('nsenter', [`--net=${this.path}`, '--', ...words], { encoding: 'utf8' });
  }

  remove(): void {
    execFileSync('umount', ['--lazy', this.path]);
    rmSync(this.#folder, { recursive: true });
  }
}
