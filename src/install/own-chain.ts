import { isDeepStrictEqual } from 'node:util';
import type { ConfList } from './conflist.ts';

type ChainPlugin = ConfList['plugins'][number];

/** What became of our list. */
interface ChainState {
  /** Types, in order, as the runtime calls them. */
  readonly chain: readonly string[];
  /** Of these, those that others have added, e.g. a service mesh. They are theirs. */
  readonly added: readonly string[];
  /** What of ours is missing or changed, in words; empty if all is as installed. */
  readonly faults: readonly string[];
}

/** Compares a list with what was installed: whatever others have added to it is theirs, and no fault. */
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

/** Our part as installed, and what others have added each behind the plugin that it stood behind. */
export function mendedChain(installed: ConfList, present: ConfList): ConfList {
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
