import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { StateFile } from '../../base/files/state-file.ts';
import { type AgentConfig, acceptConfig, stateDirOf } from './agent-config.ts';

/** A configuration that is longer was not written by people (bytes). */
const BYTES_MAX = 1 << 20;

/** What an agent runs with. */
interface ConfigInForce {
  readonly config: AgentConfig;
  /** For `keepConfig`, once the agent's folder is there; undefined if what is in force is what was kept. */
  readonly text?: string;
  /** What of the file is not in force, in sentences for people. */
  readonly warnings: readonly string[];
}

/**
 * Reads the file. A restart is never what takes a node off the network: keys that this release does not know are left out, and in place of
 * a file that cannot be used the last one counts that could.
 *
 * @throws SeineError `INVALID_INPUT`, naming every wrong field, if there was none before
 */
export function configInForce(path: string, environment: Readonly<Record<string, string | undefined>>): ConfigInForce {
  let text = '';
  try {
    text = readText(path);
    const { config, unknown } = acceptConfig(text, environment);
    return {
      config,
      text,
      warnings: unknown.map((key) => `${path}: this release knows no field ${JSON.stringify(key)}, and goes on without it`),
    };
  } catch (thrown) {
    const why = SeineError.from(thrown, 'configuration');
    const kept = lastGood(keptIn(stateDirOf(text)), environment);
    if (kept === undefined) throw why;
    return { config: kept, warnings: [`${path} is not in force, the last configuration that could be used is: ${why.message}`] };
  }
}

/** Remembers a configuration that could be used: nothing is written where it is remembered already. @throws SeineError `UNAVAILABLE` */
export async function keepConfig(stateDir: string, text: string): Promise<void> {
  const kept = keptIn(stateDir);
  if (textIn(kept) !== text) await kept.write(text);
}

function textIn(kept: StateFile): string | undefined {
  try {
    return kept.read();
  } catch {
    return undefined; // what cannot be read is written anew
  }
}

function keptIn(stateDir: string): StateFile {
  return new StateFile(join(stateDir, 'agent.yaml'), BYTES_MAX);
}

function lastGood(kept: StateFile, environment: Readonly<Record<string, string | undefined>>): AgentConfig | undefined {
  try {
    const text = kept.read();
    return text === undefined ? undefined : acceptConfig(text, environment).config;
  } catch {
    return undefined; // It is of no use: what is wrong with the new one is what matters.
  }
}

/** @throws SeineError `INVALID_INPUT` if it cannot be read, or is too long */
function readText(path: string): string {
  try {
    const fd = openSync(path, constants.O_RDONLY);
    try {
      if (fstatSync(fd).size > BYTES_MAX) throw new Error(`it has more than ${BYTES_MAX} bytes`);
      const bytes = Buffer.alloc(BYTES_MAX);
      return bytes.toString('utf8', 0, readSync(fd, bytes));
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SeineError('INVALID_INPUT', `configuration ${path} cannot be read: ${why}`, { cause });
  }
}
