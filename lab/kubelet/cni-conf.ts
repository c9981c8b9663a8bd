import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';

/** CNI versions of this runtime, oldest first. */
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

/** A network: plugins in the order of ADD, and the version used with them. */
export interface PluginChain {
  readonly name: string;
  /** The highest offered version that this runtime supports. */
  readonly version: string;
  readonly checks: boolean;
  readonly collectsGarbage: boolean;
  readonly plugins: readonly PluginConf[];
}

/**
 * Reads a CNI network configuration list. Source: CNI specification 1.1.0, section 1.
 *
 * @throws SeineError `INVALID_INPUT` naming the error
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

/** Reports whether `version` is `least` or later. Both are supported versions. */
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

/** Keys of Seine's plugin. */
interface SeinePluginConf {
  readonly agentSocket: string;
  readonly stateDir: string;
  /** Seconds. */
  readonly deadline: number;
}

/**
 * The list of a node: Seine's plugin alone, with host ports and both directions of bandwidth. It has version 1.0.0, which every runtime
 * supports, and offers all others of the plugin.
 *
 * @param versions answer of every plugin of the list to VERSION
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

/** Capabilities that runtimes are to pass. `bandwidth: both`: no later plugin of the chain limits it. */
const ownCapabilities = { bandwidth: 'both', capabilities: { bandwidth: true, portMappings: true } } as const;

/** Seine's plugin alone in the newest version, for STATUS and GC: Debian's chained plugins do not support them. */
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
