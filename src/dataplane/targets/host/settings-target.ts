import { SeineError } from '../../../base/errors/seine-error.ts';
import { setTransmitChecksum } from '../../../netlink/ethtool.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import { readSysctl, writeSysctl } from '../../../netlink/sysctl.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import { type SettingKey, settingText, tapOfSetting } from './setting-key.ts';
import { readTapChecksum } from './tap-checksums.ts';

interface SettingsTargetOptions {
  /** Socket in the network namespace of this process. */
  readonly socket: NetlinkSocket;
  /** Desired settings, which are the only ones read: the kernel has thousands. */
  readonly wanted: () => { keys(): Iterable<SettingKey>; wanted(key: SettingKey): string | undefined };
  /** Mode of the target: with `check`, nothing is written and differences are refused. */
  readonly mode: 'manage' | 'check';
  readonly changed: (setting: SettingKey, before: string, after: string) => void;
}

/**
 * Target for kernel settings in the namespace of this process (ip-sysctl of the kernel's documentation). A setting whose interface does not
 * exist needs no repair: it appears with the interface. One that no owner wants any more keeps its value.
 */
export class SettingsTarget implements Target<SettingKey, string> {
  readonly #options: SettingsTargetOptions;

  constructor(options: SettingsTargetOptions) {
    this.#options = options;
  }

  observe(): Promise<Map<SettingKey, string>> {
    const wanted = this.#options.wanted();
    return Promise.resolve(new Map(Array.from(wanted.keys(), (key) => [key, this.#current(key) ?? wanted.wanted(key) ?? ''])));
  }

  /**
   * Writes settings in the order that keeps a default route learnt by router advertisement: with forwarding on, the kernel ignores these.
   */
  apply({ put }: Plan<SettingKey, string>): Promise<void> {
    const forwardingLast = [...put].toSorted(([a], [b]) => Number(isForwarding(a)) - Number(isForwarding(b)));
    for (const [key, value] of forwardingLast) this.#put(key, value);
    return Promise.resolve();
  }

  #put(key: SettingKey, value: string): void {
    const before = this.#current(key);
    if (before === undefined || before === value) return;
    const tap = tapOfSetting(key);
    const run = tap === undefined ? `sysctl -w ${settingText(key)}=${value}` : `ethtool -K ${tap} tx ${value}`;
    if (this.#options.mode === 'check')
      throw new SeineError('REFUSED', `${settingText(key)} is ${before} and not ${value}; hostSettings is check: ${run}`);
    try {
      if (tap === undefined) writeSysctl(key.split('/'), value);
      else setTransmitChecksum(this.#options.socket, tap, 'off');
    } catch (cause) {
      const error = SeineError.from(cause, settingText(key));
      throw new SeineError('REFUSED', `${settingText(key)} is ${before} and not ${value}, and cannot be changed: ${run}`, { cause: error });
    }
    this.#options.changed(key, before, value);
  }

  /** Returns the current value; undefined if the kernel has no such setting, e.g. because the interface does not exist. */
  #current(key: SettingKey): string | undefined {
    const tap = tapOfSetting(key);
    return tap === undefined ? sysctl(key) : readTapChecksum(this.#options.socket, tap);
  }
}

function isForwarding(key: SettingKey): boolean {
  return /forward(?:ing)?$/.test(key);
}

function sysctl(key: SettingKey): string | undefined {
  try {
    return readSysctl(key.split('/')).trim();
  } catch (thrown) {
    const error = SeineError.from(thrown, settingText(key));
    if (error.context['errno'] === 'ENOENT') return undefined;
    throw error;
  }
}
