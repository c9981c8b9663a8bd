import { isDeepStrictEqual } from 'node:util';
import type { ConfList } from './conflist.ts';

type ChainPlugin = ConfList['plugins'][number];

/** State of our list. */
interface ChainState {
  /** Types, in the order in which the runtime calls them. */
  readonly chain: readonly string[];
  /** Those of them that others have added, e.g. a service mesh. They belong to others. */
  readonly added: readonly string[];
  /** Missing or changed parts of ours, as text; empty if all is as installed. */
  readonly faults: readonly string[];
}

/** Compares a list with the installed one: plugins that others have added belong to them, and are not a fault. */
export function chainState(installed: ConfList, present: ConfList): ChainState {
  const types = typesOf(present);
  const ours = typesOf(installed);
  const changed = installed.plugins.filter((plugin) => {
    const there = present.plugins.filter(({ type }) => type === plugin.type);
    return there.length > 0 && !there.some((each) => isDeepStrictEqual(each, plugin));
  });
  const missing = ours.filter((type) => !types.includes(type));
  const order = types.filter((type) => ours.includes(type));
  const faults = [
    ...missing.map((type) => `plugin "${type}" is missing`),
    ...changed.map(({ type }) => `plugin "${type}" is configured otherwise than installed`),
    ...(missing.length === 0 && !isDeepStrictEqual(order, ours) ? [`the plugins are in the order ${order.join(', ')}`] : []),
    ...(present.name === installed.name ? [] : [`the network is called "${present.name}" and not "${installed.name}"`]),
    ...(present.cniVersion === installed.cniVersion ? [] : [`cniVersion is ${present.cniVersion} and not ${installed.cniVersion}`]),
  ];
  return { chain: types, added: types.filter((type) => !ours.includes(type)), faults };
}

/** Returns our part as installed, with the plugins that others have added, each after the plugin that it followed. */
export function repairedChain(installed: ConfList, present: ConfList): ConfList {
  const ours = new Set(typesOf(installed));
  const followers = new Map<string, ChainPlugin[]>();
  let before = '';
  for (const plugin of present.plugins) {
    if (ours.has(plugin.type)) before = plugin.type;
    else followers.set(before, [...(followers.get(before) ?? []), plugin]);
  }
  const plugins = installed.plugins.flatMap((plugin) => [plugin, ...(followers.get(plugin.type) ?? [])]);
  return { ...present, ...installed, plugins: [...(followers.get('') ?? []), ...plugins] };
}

function typesOf({ plugins }: ConfList): readonly string[] {
  return plugins.map(({ type }) => type);
}
