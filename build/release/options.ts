import { parseArgs } from 'node:util';

/** An option of a step of a release. */
export interface OptionRow {
  /** Name of the value in the help text; an option without one is a flag. */
  readonly value?: string;
  /** Environment variable that is read if the option is absent. */
  readonly env?: string;
  readonly fallback?: string;
  readonly about: string;
  /** Describes valid values, or is undefined if the text is one. */
  readonly expects?: (text: string) => string | undefined;
}

export type OptionRows = Readonly<Record<string, OptionRow>>;

type Environment = Readonly<Record<string, string | undefined>>;

/** A command line that cannot be used; exit code 2. */
export class UsageError extends Error {}

/** Options of all steps. */
export const sharedRows = {
  'dry-run': { about: 'print the commands; change and push nothing' },
  help: { about: 'this text' },
} as const satisfies OptionRows;

const matching = (pattern: RegExp, expected: string) => (text: string) => (pattern.test(text) ? undefined : expected);

/** Options that several steps have. */
export const commonRows = {
  registry: {
    value: 'HOST/PATH',
    env: 'SEINE_REGISTRY',
    about: 'where images and chart go: HOST/PATH/agent, HOST/PATH/ovs, HOST/PATH/charts/seine',
    // Of the OCI distribution specification, `<name>` is lower case; the host comes in front of it.
    expects: matching(
      /^(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::\d{1,5})?(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+$/,
      'HOST[:PORT]/PATH in lower case, without a scheme and without a slash at the end',
    ),
  },
  'plain-http': { about: 'the registry does not use TLS; for tests' },
  out: { value: 'FOLDER', fallback: 'release', about: 'folder of release.json and of all files of the release' },
} as const satisfies OptionRows;

/** Values of options, by their names. */
export interface OptionValues<K extends string> {
  /** @throws UsageError naming the option and its variable, if it has no value */
  text(name: K): string;
  optional(name: K): string | undefined;
  flag(name: K): boolean;
  /** Arguments after `--`. */
  readonly more: readonly string[];
}

/**
 * Reads a command line, with environment variables for absent options. An empty variable counts as absent: GitHub's workflows set those of
 * undefined repository variables to the empty text.
 *
 * @throws UsageError naming the option or variable, and its value
 */
export function optionValues<R extends OptionRows>(rows: R, args: readonly string[], env: Environment): OptionValues<keyof R & string> {
  const { values, positionals } = parsed(rows, args);
  const found = new Map<string, string | boolean>();
  for (const [name, row] of Object.entries(rows)) {
    const fromEnv = row.env === undefined ? undefined : env[row.env] || undefined;
    const value = values[name] ?? fromEnv ?? row.fallback;
    if (value === undefined) continue;
    const expected = typeof value === 'string' ? row.expects?.(value) : undefined;
    const source = values[name] === undefined && row.env !== undefined ? row.env : `--${name}`;
    if (expected !== undefined) throw new UsageError(`${source} ${JSON.stringify(value)}: expected ${expected}`);
    found.set(name, value);
  }
  const optional = (name: string) => {
    const value = found.get(name);
    return typeof value === 'string' ? value : undefined;
  };
  return {
    optional,
    text: (name) => optional(name) ?? missing(name, rows[name]),
    flag: (name) => found.get(name) === true,
    more: positionals,
  };
}

function parsed(rows: OptionRows, args: readonly string[]) {
  const options = Object.fromEntries(
    Object.entries(rows).map(([name, { value }]) => [name, { type: value === undefined ? ('boolean' as const) : ('string' as const) }]),
  );
  const end = args.indexOf('--');
  const own = end === -1 ? args : args.slice(0, end);
  try {
    const { values } = parseArgs({ args: [...own], options, allowPositionals: false });
    return { values, positionals: end === -1 ? [] : args.slice(end + 1) };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function missing(name: string, row: OptionRow | undefined): never {
  const variable = row?.env === undefined ? '' : `, or set ${row.env}`;
  throw new UsageError(`--${name} is missing: give --${name} ${row?.value ?? ''}${variable}`);
}

/** Lines of the help text for these options. */
export function optionsHelp(rows: OptionRows): string {
  const heads = Object.entries(rows).map(([name, { value }]) => `--${name}${value === undefined ? '' : ` ${value}`}`);
  const width = Math.max(...heads.map(({ length }) => length)) + 2;
  return Object.values(rows)
    .map(({ about, env, fallback }, at) => {
      const more = [env, fallback === undefined ? undefined : `default ${fallback}`].filter((each) => each !== undefined);
      return `  ${(heads[at] ?? '').padEnd(width)}${about}${more.length > 0 ? ` (${more.join('; ')})` : ''}\n`;
    })
    .join('');
}
