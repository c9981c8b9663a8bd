import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { generation } from '../../dataplane/pipeline/cookie.ts';
import { type BridgeForm, bridgeLines, entryText } from '../../operations/compiler-inputs/bridge-text.ts';
import { type CompiledBridge, compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import { type ReadInputs, readInputs } from '../../operations/compiler-inputs/inputs-document.ts';
import { readHeld } from '../../operations/compiler-inputs/installed-bridge.ts';
import { inputsName } from '../../operations/support-bundle/agent-files.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { manifestName, parseManifest } from '../../operations/support-bundle/manifest.ts';
import { heldName } from '../../operations/support-bundle/openflow-files.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';

export interface CompileCommandOptions {
  readonly output: BridgeForm;
  /** Compares with the bridge in the archive, and prints only differences. */
  readonly check?: boolean;
}

/** `seinectl compile`: compiles the flows and groups of a node again from their inputs. */
export async function compileBundle(path: string, options: CompileCommandOptions, terminal: Terminal): Promise<number> {
  const files = await readArchive(path, (name) => [manifestName, inputsName, heldName].includes(name));
  const manifest = parseManifest(textOf(files, manifestName, path));
  const lacking = manifest.parts.find(({ name, state }) => name === inputsName && state !== 'whole');
  if (lacking) throw new SeineError('INVALID_INPUT', `${path} has no complete inputs: ${lacking.reason ?? lacking.state}`);
  const read = readInputs(textOf(files, inputsName, path));
  const compiled = compileInputs(read.inputs);
  remarks(read, compiled, terminal);
  if (options.check) return check(compiled, textOf(files, heldName, path), terminal);
  const lines = bridgeLines(compiled.entries, options.output);
  for (const line of lines) terminal.line(safeLine(line));
  const left = compiled.entries.size - lines.length;
  if (left > 0) terminal.remark(`seinectl: ${left} left out: ovs-ofctl accepts no meters in a bundle; use -o text for them`);
  return compiled.failures.length === 0 ? exitCodes.ok : exitCodes.different;
}

function textOf(files: ReadonlyMap<string, Uint8Array>, name: string, path: string): string {
  const bytes = files.get(name);
  if (!bytes) throw new SeineError('INVALID_INPUT', `${path} has no ${name}`);
  return Buffer.from(bytes).toString('utf8');
}

function remarks(read: ReadInputs, { entries, failures }: CompiledBridge, terminal: Terminal): void {
  const say = (text: string): void => terminal.remark(safeLine(`seinectl: ${text}`));
  say(`${count(entries.size, 'entry', 'entries')} of ${read.node}`);
  if (read.seine !== seineVersion) say(`the inputs are of Seine ${read.seine}; this is ${seineVersion}, and may compile otherwise`);
  if (read.generation !== generation) say(`the pipeline has generation ${generation} and not ${read.generation}: flows differ`);
  if (!read.steady) say('the node was changing while its inputs were written down: they may be of different moments');
  for (const { owner, error } of failures) say(`${owner} does not compile: ${error.message}`);
}

/** Like `seinectl diff`: `+` was missing, `-` unexpected, `~` different. */
function check({ entries, learned }: CompiledBridge, text: string, terminal: Terminal): number {
  const { held, policyRows } = readHeld(text, learned);
  if (policyRows > 0) terminal.remark(`seinectl: ${count(policyRows, 'row')} of policy not compared: the inputs have no policies`);
  let differences = 0;
  const say = (line: string): void => {
    differences++;
    terminal.line(safeLine(line));
  };
  for (const [key, value] of entries) {
    const actual = held.get(key);
    if (actual === undefined) say(`+ ${entryText(key, value)}`);
    else if (actual !== value) {
      say(`~ ${entryText(key, value)}`);
      terminal.line(safeLine(`  now: ${entryText(key, actual)}`));
    }
  }
  for (const [key, value] of held) if (!entries.has(key)) say(`- ${entryText(key, value)}`);
  terminal.remark(differences === 0 ? 'seinectl: the bridge had exactly these' : `seinectl: ${count(differences, 'difference')}`);
  return differences === 0 ? exitCodes.ok : exitCodes.different;
}
