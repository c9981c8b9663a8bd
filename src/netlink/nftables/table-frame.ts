/** Chains and declarations of a table of nftables: all that it has beside rules and elements. */
export interface TableFrame {
  readonly chains: ReadonlySet<string>;
  /** Sets, maps and counters, as declared in nft(8): sorted, one in each line. */
  readonly declarations: string;
}

/** Declaration of a set, map or counter on a line of its own, as bodies of tables have them; or the beginning of a chain. */
const declared = /^\s*(?:(set|map) (\S+) \{ type ([^;]+);(?: flags ([^;]+);)? \}|(counter) (\S+) \{ *\}|(chain) (\S+) \{)/gm;
/** Any object of a body, in whatever form. */
const anyObject = /^\s*(?:set|map|counter|chain|quota|limit|ct|flowtable|secmark|synproxy) /gm;

/** Returns the frame of a table with this body; undefined if the body declares something in another form. */
export function frameOfBody(body: string): TableFrame | undefined {
  const chains = new Set<string>();
  const lines: string[] = [];
  const all = [...body.matchAll(declared)];
  for (const [, collection, name, type, flags, counter, counterName, chain, chainName] of all) {
    if (chain !== undefined) chains.add(unquoted(chainName));
    else if (counter !== undefined) lines.push(`counter ${unquoted(counterName)}`);
    else lines.push(lineOf(collection ?? '', unquoted(name), type ?? '', flags ?? ''));
  }
  if (all.length !== [...body.matchAll(anyObject)].length) return undefined;
  return { chains, declarations: lines.toSorted().join('\n') };
}

/** Properties of sets and maps that bodies declare, or that are no part of a declaration. */
const setProperties = new Set(['family', 'name', 'table', 'handle', 'type', 'map', 'flags', 'elem']);
const plainName = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;

/** Returns the frame of a table by its listing, libnftables-json(5); undefined if it has something that no body of Seine's declares. */
export function frameOfListing(objects: readonly unknown[]): TableFrame | undefined {
  const chains = new Set<string>();
  const lines: string[] = [];
  for (const object of objects) {
    const [[kind = '', value] = []] = Object.entries(object as Readonly<Record<string, object>>);
    const { name, type, map, flags } = value as Readonly<Record<'name' | 'type' | 'map' | 'flags', unknown>>;
    if (kind === 'metainfo' || kind === 'rule') continue;
    if (typeof name !== 'string' || !plainName.test(name)) return undefined;
    if (kind === 'chain') chains.add(name);
    else if (kind === 'counter') lines.push(`counter ${name}`);
    else if (kind === 'set' || kind === 'map') {
      if (Object.keys(value ?? {}).some((property) => !setProperties.has(property))) return undefined;
      const mapped = kind === 'map' ? ` : ${joined(map, ' . ')}` : '';
      lines.push(lineOf(kind, name, `${joined(type, ' . ')}${mapped}`, joined(flags, ', ')));
    } else if (kind !== 'table' || flags !== undefined) return undefined; // such as one that is dormant
  }
  return { chains, declarations: lines.toSorted().join('\n') };
}

function lineOf(kind: string, name: string, type: string, flags: string): string {
  return `${kind} ${name} ${type} ${flags}`;
}

function joined(value: unknown, separator: string): string {
  return value === undefined ? '' : Array.isArray(value) ? value.join(separator) : String(value);
}

function unquoted(name: string | undefined): string {
  return (name ?? '').replaceAll('"', '');
}
