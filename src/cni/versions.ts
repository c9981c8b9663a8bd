import { CniError, cniCodes } from './errors.ts';
import { hasOwnKey } from './own-key.ts';

/** Supported versions of the CNI protocol, oldest first. */
export const cniVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const;

export type CniVersion = (typeof cniVersions)[number];

export const newestVersion: CniVersion = '1.1.0';

export type CniCommand = 'ADD' | 'DEL' | 'CHECK' | 'STATUS' | 'GC' | 'VERSION';

/** First version that has a command. */
const introduced: Readonly<Record<CniCommand, CniVersion>> = {
  ADD: '0.1.0',
  DEL: '0.1.0',
  VERSION: '0.1.0',
  CHECK: '0.4.0',
  STATUS: '1.1.0',
  GC: '1.1.0',
};

export function isCniCommand(text: string): text is CniCommand {
  return hasOwnKey(introduced, text);
}

export function isAtLeast(version: CniVersion, other: CniVersion): boolean {
  return cniVersions.indexOf(version) >= cniVersions.indexOf(other);
}

/**
 * Returns the version of a configuration; an empty or missing one means 0.1.0.
 *
 * @throws CniError 1 if it is not supported, or too old for `command`
 */
export function parseVersion(text: string, command: CniCommand): CniVersion {
  const version = text === '' ? '0.1.0' : cniVersions.find((known) => known === text);
  if (version === undefined)
    throw new CniError(
      cniCodes.incompatibleVersion,
      `cniVersion: ${JSON.stringify(text.slice(0, 64))} is not supported`,
      `supported: ${cniVersions.join(', ')}`,
    );
  if (!isAtLeast(version, introduced[command]))
    throw new CniError(cniCodes.incompatibleVersion, `cniVersion: ${version} does not allow ${command}`, `needs ${introduced[command]}`);
  return version;
}

/** Formats the output of VERSION. */
export function formatVersions(): string {
  return JSON.stringify({ cniVersion: newestVersion, supportedVersions: cniVersions });
}
