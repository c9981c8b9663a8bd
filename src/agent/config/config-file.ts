import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { StateFile } from '../../base/files/state-file.ts';
import { type AgentConfig, acceptConfig, stateDirOf } from './agent-config.ts';

/** Maximum length of a configuration; longer ones were not written by humans (bytes). */
const BYTES_MAX = 1 << 20;

/** Configuration that an agent runs with. */
interface ConfigInForce {
  readonly config: AgentConfig;
  /** Text for `keepConfig`, once the agent's folder exists; undefined if the kept configuration is in force. */
  readonly text?: string;
  /** Parts of the file that are not in force, as sentences. */
  readonly warnings: readonly string[];
}

/**
 * Reads the file. A restart never disconnects the node: keys that this release does not know are ignored, and an invalid file is replaced
 * by the last valid one.
 *
 * @throws SeineError `INVALID_INPUT`, naming every invalid field, if there was none before
 */
export function configInForce(path: string, environment: Readonly<Record<string, string | undefined>>): ConfigInForce {
  let text = '';
  try {
    text = readText(path);
    const { config, unknown } = acceptConfig(text, environment);
    return {
      config,
      text,
      warnings: unknown.map((key) => `${path}: unknown field ${JSON.stringify(key)} is ignored by this release`),
    };
  } catch (thrown) {
    const why = SeineError.from(thrown, 'configuration');
    const kept = lastGood(keptIn(stateDirOf(text)), environment);
    if (kept === undefined) throw why;
    return { config: kept, warnings: [`${path} is not in force, the last configuration that could be used is: ${why.message}`] };
  }
}

/** Stores a valid configuration; nothing is written if it is already stored. @throws SeineError `UNAVAILABLE` */
export async function keepConfig(stateDir: string, text: string): Promise<void> {
  const kept = keptIn(stateDir);
  if (textIn(kept) !== text) await kept.write(text);
}

function textIn(kept: StateFile): string | undefined {
  try {
    return kept.read();
  } catch {
    return undefined; // an unreadable file is written again
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
    return undefined; // It is invalid, too: the errors of the new file are reported.
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
