import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Variable of the lab that names the cgroup in which it starts agents. */
const LAB_VARIABLE = 'SEINE_LAB_AGENT_CGROUP';

const version1 = {
  root: '/sys/fs/cgroup/memory',
  limit: 'memory.limit_in_bytes',
  peak: 'memory.max_usage_in_bytes',
} as const;
const version2 = { root: '/sys/fs/cgroup', limit: 'memory.max', peak: 'memory.peak' } as const;

/** A cgroup with a limit of memory, as a container has: the kernel kills what needs more, and node bounds its heap by it. */
export class MemoryCgroup {
  readonly path: string;
  readonly #files: typeof version1 | typeof version2;

  /** @throws Error where no cgroup can be created, e.g. in a container without that permission */
  constructor(limitBytes: number) {
    this.#files = existsSync(join(version1.root, version1.limit)) ? version1 : version2;
    this.path = join(this.#files.root, `seine-test-${randomBytes(4).toString('hex')}`);
    if (this.#files === version2) writeFileSync(join(version2.root, 'cgroup.subtree_control'), '+memory');
    mkdirSync(this.path);
    writeFileSync(join(this.path, this.#files.limit), String(limitBytes));
  }

  /** Labs that are started until `remove` start their agents in it. */
  useForAgents(): void {
    process.env[LAB_VARIABLE] = this.path;
  }

  get peakBytes(): number {
    return Number(readFileSync(join(this.path, this.#files.peak), 'utf8'));
  }

  processes(): readonly number[] {
    return readFileSync(join(this.path, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);
  }

  /** After its processes ended. */
  remove(): void {
    delete process.env[LAB_VARIABLE];
    rmdirSync(this.path);
  }
}
