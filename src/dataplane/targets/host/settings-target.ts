import { SeineError } from '../../../base/errors/seine-error.ts';
import { setTransmitChecksum } from '../../../netlink/ethtool.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import { readSysctl, writeSysctl } from '../../../netlink/sysctl.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import { type SettingKey, settingText, tapOfSetting } from './setting-key.ts';
import { readTapChecksum } from './tap-checksums.ts';

interface SettingsTargetOptions {
  /** Any of the namespace of this process. */
  readonly socket: NetlinkSocket;
  /** What is looked at: the kernel has thousands of settings. */
  readonly wanted: () => { keys(): Iterable<SettingKey>; wanted(key: SettingKey): string | undefined };
  /** Under `check` nothing is written, and what differs is refused. */
  readonly mode: 'manage' | 'check';
  readonly changed: (setting: SettingKey, before: string, after: string) => void;
}

/**
 * Settings of the kernel in the namespace of this process (ip-sysctl of the kernel's documentation). A setting whose interface is gone
 * is nothing to repair: it comes with the interface. One that no owner wants any more stays as it is.
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

  /** In the order that keeps a default route learnt by router advertisement: with forwarding on, the kernel ignores these. */
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

  /** Undefined if the kernel has no such setting, as for an interface that is gone. */
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
