import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';

/** The versions this runtime speaks, oldest first. */
const spoken = ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'];

const plugin = z.looseObject({
  type: z.string().regex(/^[A-Za-z0-9_.-]+$/),
  capabilities: z.record(z.string(), z.boolean()).optional(),
});

const confList = z.looseObject({
  name: z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/),
  cniVersion: z.string(),
  cniVersions: z.array(z.string()).optional(),
  disableCheck: z.boolean().optional(),
  disableGC: z.boolean().optional(),
  plugins: z.array(plugin).min(1),
});

export type PluginConf = z.infer<typeof plugin>;

/** A network: plugins in the order of ADD, and the version they are spoken to in. */
export interface PluginChain {
  readonly name: string;
  /** The highest of those offered that we speak. */
  readonly version: string;
  readonly checks: boolean;
  readonly collectsGarbage: boolean;
  readonly plugins: readonly PluginConf[];
}

/**
 * Reads a CNI network configuration list. Source: CNI specification 1.1.0, section 1.
 *
 * @throws SeineError `INVALID_INPUT` naming what is wrong
 */
export function parseNetworkConf(text: string): PluginChain {
  const parsed = confList.safeParse(parseJson(text));
  if (!parsed.success) throw new SeineError('INVALID_INPUT', `CNI configuration: ${z.prettifyError(parsed.error)}`);
  const { name, cniVersion, cniVersions = [], disableCheck, disableGC, plugins } = parsed.data;
  const version = spoken.findLast((known) => known === cniVersion || cniVersions.includes(known));
  if (version === undefined)
    throw new SeineError('INVALID_INPUT', `CNI configuration: no version of ${cniVersion}, ${cniVersions} is known`);
  return { name, version, checks: disableCheck !== true, collectsGarbage: disableGC !== true, plugins };
}

/** Is `version` the one given or later? Both are among those we speak. */
export function isAtLeast(version: string, least: string): boolean {
  return spoken.indexOf(version) >= spoken.indexOf(least);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'CNI configuration: not JSON', { cause });
  }
}

/** Keys of our own plugin. */
interface SeinePluginConf {
  readonly agentSocket: string;
  readonly stateDir: string;
  /** Seconds. */
  readonly deadline: number;
}

/**
 * The list of a node: ours alone, with host ports and both directions of bandwidth. It says 1.0.0, which every runtime speaks, and offers
 * whatever it can do besides.
 *
 * @param versions what every plugin of the list answered to VERSION
 */
export function chainConfList(seine: SeinePluginConf, versions: readonly (readonly string[])[]): string {
  const common = spoken.filter((version) => versions.every((offered) => offered.includes(version)));
  return formatted({
    cniVersion: '1.0.0',
    cniVersions: common.filter((version) => isAtLeast(version, '0.4.0')),
    name: 'seine',
    plugins: [{ type: 'seine', ...seine, ...ownCapabilities }],
  });
}

/** What runtimes are to hand us. `bandwidth: both`: no plugin behind ours limits anything. */
const ownCapabilities = { bandwidth: 'both', capabilities: { bandwidth: true, portMappings: true } } as const;

/** Our plugin alone in the newest version, for who wants to try STATUS and GC: Debian's chained plugins do not know them. */
export function aloneConfList(seine: SeinePluginConf): string {
  return formatted({
    cniVersion: '1.1.0',
    name: 'seine-alone',
    plugins: [{ type: 'seine', ...seine, ...ownCapabilities }],
  });
}

function formatted(conf: object): string {
  return `${JSON.stringify(conf, null, 2)}\n`;
}
