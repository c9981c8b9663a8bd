import { CniError, cniCodes } from './errors.ts';
import { type CniCommand, isCniCommand } from './versions.ts';

/** CNI_* variables as the runtime set them; an unset one is absent or empty, which CNI treats alike. */
export interface Environment {
  readonly CNI_COMMAND?: string;
  readonly CNI_CONTAINERID?: string;
  readonly CNI_NETNS?: string;
  readonly CNI_IFNAME?: string;
  readonly CNI_ARGS?: string;
  readonly CNI_PATH?: string;
}

type EnvironmentVariable = keyof Environment;

export const environmentVariables: readonly EnvironmentVariable[] = [
  'CNI_COMMAND',
  'CNI_CONTAINERID',
  'CNI_NETNS',
  'CNI_IFNAME',
  'CNI_ARGS',
  'CNI_PATH',
];

/** Variables that each command requires. Source: CNI SPEC 1.1.0, "CNI operations". */
const required: Readonly<Record<CniCommand, readonly EnvironmentVariable[]>> = {
  ADD: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  CHECK: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  DEL: ['CNI_CONTAINERID', 'CNI_IFNAME', 'CNI_PATH'],
  GC: ['CNI_PATH'],
  STATUS: [],
  VERSION: [],
};

/** Maximum lengths in characters: Linux's PATH_MAX for paths, and more than any runtime sends for the others. */
const lengthMax: Readonly<Record<EnvironmentVariable, number>> = {
  CNI_COMMAND: 16,
  CNI_CONTAINERID: 1024,
  CNI_NETNS: 4095,
  CNI_IFNAME: 15,
  CNI_ARGS: 16_384,
  CNI_PATH: 16_384,
};

/** @throws CniError 4 */
export function parseCommand(env: Environment): CniCommand {
  const command = env.CNI_COMMAND ?? '';
  if (command === '') throw new CniError(cniCodes.invalidEnvironment, 'CNI_COMMAND is not set');
  if (!isCniCommand(command))
    throw new CniError(
      cniCodes.invalidEnvironment,
      `CNI_COMMAND: ${JSON.stringify(command.slice(0, 64))} is not a command`,
      'ADD, DEL, CHECK, STATUS, GC or VERSION',
    );
  return command;
}

/**
 * Name that is valid as a container ID and as a network name: no separators, no dot or dash at the start. Source: CNI SPEC, "Network
 * configuration".
 */
export function isCniName(text: string): boolean {
  return /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text);
}

/**
 * Checks that the variables that `command` requires are present and well-formed.
 *
 * @throws CniError 4 that names all missing variables, or the invalid one
 */
export function checkEnvironment(env: Environment, command: CniCommand): void {
  const missing = required[command].filter((name) => (env[name] ?? '') === '');
  if (missing.length > 0) throw new CniError(cniCodes.invalidEnvironment, `${command} needs ${missing.join(', ')}: not set`);
  const long = environmentVariables.find((name) => (env[name] ?? '').length > lengthMax[name]);
  if (long !== undefined) throw wrong(env, long, `longer than ${lengthMax[long]} characters`);
  if (command === 'ADD' || command === 'CHECK' || command === 'DEL') checkAttachment(env, command);
}

function checkAttachment(env: Environment, command: 'ADD' | 'CHECK' | 'DEL'): void {
  if (!isCniName(env.CNI_CONTAINERID ?? ''))
    throw wrong(env, 'CNI_CONTAINERID', 'must begin with a letter or digit and continue with letters, digits, "_", "." or "-"');
  const ifName = env.CNI_IFNAME ?? '';
  if (ifName === '.' || ifName === '..' || /[/:\s]/.test(ifName) || !isPrintable(ifName))
    throw wrong(env, 'CNI_IFNAME', 'not a name for a network interface');
  if (command === 'DEL') return; // the namespace may be stale, a dummy or relative: DEL does not use it
  if (!(env.CNI_NETNS ?? '').startsWith('/')) throw wrong(env, 'CNI_NETNS', 'not an absolute path');
}

/** Visible ASCII: the kernel accepts any byte in a name, but logs and `ip link` do not; and 15 characters are then 15 bytes. */
function isPrintable(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x21 || unit > 0x7e) return false;
  }
  return true;
}

function wrong(env: Environment, name: EnvironmentVariable, why: string): CniError {
  return new CniError(cniCodes.invalidEnvironment, `${name}: ${JSON.stringify((env[name] ?? '').slice(0, 100))}: ${why}`);
}
