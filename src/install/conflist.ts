import { z } from 'zod';
import { SeineError } from '../base/errors/seine-error.ts';

/** Name of Seine's plugin in `plugins[].type`, and of its file. */
export const ownPlugin = 'seine';

const schema = z.looseObject({
  name: z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/),
  cniVersion: z.string(),
  cniVersions: z.array(z.string()).optional(),
  plugins: z.array(z.looseObject({ type: z.string().regex(/^[A-Za-z0-9_.-]+$/) })).min(1),
});

export type ConfList = z.infer<typeof schema>;

/** @throws SeineError `INVALID_INPUT` naming the invalid field, also if Seine's plugin is missing */
export function parseConfList(text: string, from: string): ConfList {
  const parsed = schema.safeParse(parseJson(text, from));
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the document'}: ${message}`);
    throw new SeineError('INVALID_INPUT', `${from}: ${issues.join('; ')}`);
  }
  if (!hasOurs(parsed.data)) throw new SeineError('INVALID_INPUT', `${from}: plugins: none is of type "${ownPlugin}"`);
  return parsed.data;
}

/** Reports whether a text is a valid configuration without Seine's plugin. An invalid one under Seine's name is Seine's: damaged. */
export function isForeign(text: string): boolean {
  try {
    return !hasOurs(schema.parse(JSON.parse(text)));
  } catch {
    return false;
  }
}

function hasOurs({ plugins }: ConfList): boolean {
  return plugins.some(({ type }) => type === ownPlugin);
}

/**
 * Returns the list as it is installed: it offers every version from 0.4.0 on that all of its plugins support.
 *
 * @param spoken versions of each plugin of the chain
 * @throws SeineError `INVALID_INPUT` if one does not support the version of the list
 */
export function withVersions(list: ConfList, spoken: ReadonlyMap<string, readonly string[]>): string {
  for (const [type, versions] of spoken)
    if (!versions.includes(list.cniVersion))
      throw new SeineError('INVALID_INPUT', `plugin "${type}" supports CNI ${versions.join(', ')}, not ${list.cniVersion}`);
  const common = (spoken.get(ownPlugin) ?? []).filter((version) => [...spoken.values()].every((versions) => versions.includes(version)));
  return `${JSON.stringify({ ...list, cniVersions: common.filter((version) => !/^0\.[0-3]\./.test(version)) }, null, 2)}\n`;
}

function parseJson(text: string, from: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', `${from}: not JSON`, { cause });
  }
}
