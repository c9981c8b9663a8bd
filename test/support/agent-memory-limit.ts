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

/** Share of a container's memory that node gives to the heap by default: half (V8's `HeapSizeFromPhysicalMemory`). */
const HEAP_SHARE = 0.5;

/**
 * A memory limit, like a container's: a cgroup, in which the kernel kills a process above it and node sizes its heap by it. If no cgroup
 * can be created, a heap of the size that node would choose in one; the caller compares the peak with the limit in either case.
 */
export class AgentMemoryLimit {
  readonly #files: typeof version1 | typeof version2;
  readonly #limitBytes: number;
  /** Undefined if none can be created. */
  readonly #cgroup: string | undefined;
  readonly #nodeOptions = process.env['NODE_OPTIONS'];

  /** Labs that are started before `end` start their agents with this limit. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
    this.#files = existsSync(join(version1.root, version1.limit)) ? version1 : version2;
    this.#cgroup = this.#create();
    if (this.#cgroup !== undefined) process.env[LAB_VARIABLE] = this.#cgroup;
    else process.env['NODE_OPTIONS'] = `${this.#nodeOptions ?? ''} --max-old-space-size=${(limitBytes * HEAP_SHARE) / 1024 ** 2}`;
  }

  #create(): string | undefined {
    const path = join(this.#files.root, `seine-test-${randomBytes(4).toString('hex')}`);
    try {
      if (this.#files === version2) writeFileSync(join(version2.root, 'cgroup.subtree_control'), '+memory');
      mkdirSync(path);
      writeFileSync(join(path, this.#files.limit), String(this.#limitBytes));
      return path;
    } catch {
      if (existsSync(path)) rmdirSync(path);
      return undefined;
    }
  }

  /** Peak memory of the agent: of the cgroup, or else of the process. @throws Error if it is not in the cgroup */
  peakBytes(agent: number): number {
    if (this.#cgroup === undefined)
      return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${agent}/status`, 'utf8'))?.[1] ?? Number.NaN) * 1024;
    const processes = readFileSync(join(this.#cgroup, 'cgroup.procs'), 'utf8').split('\n');
    if (!processes.includes(String(agent))) throw new Error(`process ${agent} is not in ${this.#cgroup}`);
    return Number(readFileSync(join(this.#cgroup, this.#files.peak), 'utf8'));
  }

  /** Called after the agents ended. */
  end(): void {
    delete process.env[LAB_VARIABLE];
    if (this.#nodeOptions === undefined) delete process.env['NODE_OPTIONS'];
    else process.env['NODE_OPTIONS'] = this.#nodeOptions;
    if (this.#cgroup !== undefined) rmdirSync(this.#cgroup);
  }
}
