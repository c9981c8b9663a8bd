import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { placeFile, removeFile } from '../../../base/files/atomic-file.ts';
import { StateFile } from '../../../base/files/state-file.ts';
import type { Log } from '../../../base/log/log.ts';
import { readSysctl, type SysctlName, writeSysctl } from '../../../netlink/sysctl.ts';

/** Kernel parameters by which conntrack counts packets and bytes, and stamps begin and end. Connections opened before have neither. */
const wanted = ['nf_conntrack_acct', 'nf_conntrack_timestamp'] as const;

const FILE_BYTES_MAX = 4_096;

const nameOf = (parameter: string): SysctlName => ['net', 'netfilter', parameter];

/** Kernel parameters; a test has others. */
interface KernelParameters {
  readonly read: (parameter: string) => string;
  readonly write: (parameter: string, value: string) => void;
  /** Number of this boot: parameters of another one are gone. */
  readonly boot: () => string;
}

const ofKernel: KernelParameters = {
  read: (parameter) => readSysctl(nameOf(parameter)),
  write: (parameter, value) => writeSysctl(nameOf(parameter), value),
  boot: () => readSysctl(['kernel', 'random', 'boot_id']),
};

interface TrackerAccountingOptions {
  /** File for the previous values, which the next agent reads if this one is killed. */
  readonly file: string;
  readonly log: Pick<Log, 'warn'>;
  readonly kernel?: KernelParameters;
}

/** Change of a kernel parameter that an agent has left. */
interface LeftChange {
  /** Name as of sysctl(8). */
  readonly parameter: string;
  /** Value before the change. */
  readonly value: string;
  /** @throws SeineError `REFUSED` if the kernel does not accept it */
  readonly restore: () => void;
}

type PreviousValues = Partial<Record<(typeof wanted)[number], '0' | '1'>>;

const stored = z.strictObject({ boot: z.string().max(64), values: z.partialRecord(z.enum(wanted), z.enum(['0', '1'])) });

/** File of previous values below the agent's state. */
export function trackerParametersFile(stateDir: string): string {
  return join(stateDir, 'tracker-parameters.json');
}

/** Turns accounting of the kernel's tracker on, and restores previous values at the end: also those that a killed agent has left. */
export class TrackerAccounting {
  readonly #options: TrackerAccountingOptions;
  readonly #kernel: KernelParameters;

  constructor(options: TrackerAccountingOptions) {
    this.#options = options;
    this.#kernel = options.kernel ?? ofKernel;
  }

  turnOn(): void {
    const left = this.#previous();
    for (const parameter of wanted)
      this.#try(parameter, () => {
        const value = this.#kernel.read(parameter);
        if (value === '1') return;
        left[parameter] = value === '0' ? value : '0';
        this.#remember(left); // before the change: a kill in between changes nothing
        this.#kernel.write(parameter, '1');
      });
  }

  /** Restores what this agent or a killed one has changed, unless another program changed it meanwhile. */
  restore(): void {
    for (const [parameter, value] of Object.entries(this.#previous()))
      this.#try(parameter, () => {
        if (this.#kernel.read(parameter) === '1') this.#kernel.write(parameter, value);
      });
    this.#try('', () => removeFile(this.#options.file));
  }

  /** Returns the changes that are still in force: those of a killed agent, or of one that runs. */
  leftChanges(): readonly LeftChange[] {
    return Object.entries(this.#previous()).flatMap(([parameter, value]) =>
      this.#isOn(parameter) ? [{ parameter: nameOf(parameter).join('.'), value, restore: () => this.#kernel.write(parameter, value) }] : [],
    );
  }

  #isOn(parameter: string): boolean {
    try {
      return this.#kernel.read(parameter) === '1';
    } catch {
      return false; // the kernel's module is gone, and its parameters with it
    }
  }

  /** Values from before the first agent of this boot that changed them. */
  #previous(): PreviousValues {
    try {
      const { boot, values } = stored.parse(JSON.parse(new StateFile(this.#options.file, FILE_BYTES_MAX).read() ?? ''));
      return boot === this.#kernel.boot() ? { ...values } : {};
    } catch {
      return {}; // no agent has changed them, or what it wrote cannot be read: then nothing is restored
    }
  }

  #remember(values: PreviousValues): void {
    const { file } = this.#options;
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    placeFile(file, { bytes: Buffer.from(JSON.stringify({ boot: this.#kernel.boot(), values })), mode: 0o600 });
  }

  #try(parameter: string, change: () => void): void {
    try {
      change();
    } catch (thrown) {
      // The kernel has no such parameter, or /proc/sys or the disk is read-only: connections are recorded without counters.
      this.#options.log.warn('connection tracking does not count', { parameter, cause: String(thrown) });
    }
  }
}

/** Timeouts of connections by kernel parameter (ms), each read once. */
export class TrackerTimeouts {
  readonly #known = new Map<string, number>();

  /** Returns 0 for a parameter that the kernel does not have. */
  of(parameter: string): number {
    let found = this.#known.get(parameter);
    if (found === undefined) {
      found = secondsOf(parameter) * 1_000;
      this.#known.set(parameter, found);
    }
    return found;
  }
}

function secondsOf(parameter: string): number {
  try {
    return Number(readSysctl(nameOf(parameter)));
  } catch {
    return 0; // then the end is the time of the removal
  }
}
