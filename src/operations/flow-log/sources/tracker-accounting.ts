import type { Log } from '../../../base/log/log.ts';
import { ensureSysctl, readSysctl, type SysctlName, writeSysctl } from '../../../netlink/sysctl.ts';

/** Kernel parameters by which conntrack counts packets and bytes, and stamps begin and end. Connections opened before have neither. */
const wanted = ['nf_conntrack_acct', 'nf_conntrack_timestamp'] as const;

const nameOf = (parameter: string): SysctlName => ['net', 'netfilter', parameter];

/** Turns accounting of the kernel's tracker on, and restores previous values at the end. */
export class TrackerAccounting {
  readonly #previous = new Map<string, string>();
  readonly #log: Log;

  /** @param mayWrite false with `hostSettings: check`: what is off stays off, and connections have no counters */
  constructor(mayWrite: boolean, log: Log) {
    this.#log = log;
    if (mayWrite) for (const parameter of wanted) this.#try(parameter, () => this.#turnOn(parameter));
  }

  /** Restores what this object changed, unless another program changed it meanwhile. */
  restore(): void {
    for (const [parameter, value] of this.#previous)
      this.#try(parameter, () => {
        if (readSysctl(nameOf(parameter)) === '1') writeSysctl(nameOf(parameter), value);
      });
    this.#previous.clear();
  }

  #turnOn(parameter: string): void {
    const before = readSysctl(nameOf(parameter));
    if (ensureSysctl(nameOf(parameter), 1) === 'changed') this.#previous.set(parameter, before);
  }

  #try(parameter: string, change: () => void): void {
    try {
      change();
    } catch (thrown) {
      // The kernel has no such parameter, or /proc/sys is read-only: connections are recorded without counters.
      this.#log.warn('connection tracking does not count', { parameter, cause: String(thrown) });
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
