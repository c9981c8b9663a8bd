import { parseArgs } from 'node:util';
import { SetupError, say } from '../setup/progress.mjs';

/**
 * The command line of a long suite in parts: `--only NAME[,NAME…]`, `--list`, `--help` and the suite's own. Sets the exit code.
 *
 * @param {{ script: string, help: string, parts: readonly { name: string, what: string }[], perform: Function, options?: object }} suite
 *   `perform` gets the chosen parts and the given options, and resolves to true if all of them passed
 */
export async function partsCommand({ script, help, parts, perform, options = {} }) {
  try {
    const { only, list, help: isHelp, ...more } = commandLine(script, options);
    if (isHelp) process.stdout.write(help);
    else if (list) for (const { name, what } of parts) console.log(`${name.padEnd(16)}${what}`);
    else process.exitCode = (await perform(chosenParts(parts, only), more)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    say(`→ ${error.remedy}`);
    process.exitCode = 1;
  }
}

/**
 * Runs one part after another, and prints a line for each at the end.
 *
 * @param run resolves to the result of a part, and the path of its logs, if there are any
 * @returns true if all passed
 */
export async function runParts(chosen, run) {
  const results = [];
  for (const [at, part] of chosen.entries()) {
    say(`${at + 1}/${chosen.length} ${part.name}: ${part.what}`);
    const started = performance.now();
    const { ok, logs } = await run(part);
    results.push({ name: part.name, ok, logs, seconds: Math.round((performance.now() - started) / 1000) });
  }
  for (const { name, ok, logs, seconds } of results)
    console.log(`${ok ? '✓' : '✗'} ${name} (${seconds} s)${ok || logs === undefined ? '' : `, logs in ${logs}`}`);
  return results.every(({ ok }) => ok);
}

/** Exit code of `work`. An error of the set-up is printed and counts as a failure; other parts continue. */
export async function exitCodeOf(work) {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    return 1;
  }
}

/** A word of a shell's command. */
export function quote(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function commandLine(script, options) {
  const flag = { type: 'boolean', default: false };
  try {
    return parseArgs({ options: { only: { type: 'string' }, list: flag, help: flag, ...options } }).values;
  } catch (error) {
    throw new SetupError(error.message, `npm run ${script} -- --help lists the options`);
  }
}

function chosenParts(parts, only) {
  if (only === undefined) return parts;
  const names = only.split(',');
  const unknown = names.find((name) => !parts.some((part) => part.name === name));
  if (unknown !== undefined) throw new SetupError(`there is no part "${unknown}"`, `one of: ${parts.map(({ name }) => name).join(', ')}`);
  return parts.filter(({ name }) => names.includes(name));
}
