/** A usage error: reported in one line, without a stack. */
export class UsageError extends Error {}

/** Runs a script to its end. @param main resolves to the exit code; any other value keeps `process.exitCode` */
export async function runScript(main: () => Promise<unknown>): Promise<void> {
  try {
    const code = await main();
    if (typeof code === 'number') process.exitCode = code;
  } catch (thrown) {
    if (!isUsage(thrown)) throw thrown;
    process.stderr.write(`${thrown.message}; --help says what there is\n`);
    process.exitCode = 2;
  }
}

/** Value of an option that is a count. @throws UsageError */
export function wholeNumber(option: string, text: string, least = 1): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
    throw new UsageError(`--${option} ${JSON.stringify(text)}: a whole number from ${least} on is wanted`);
  return value;
}

/** `parseArgs` of Node throws errors with this prefix of codes. */
function isUsage(thrown: unknown): thrown is Error {
  return thrown instanceof UsageError || (thrown instanceof Error && 'code' in thrown && String(thrown.code).startsWith('ERR_PARSE_ARGS_'));
}
