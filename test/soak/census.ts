import type { ConvergeLab } from '../support/converge-lab.ts';

/** State of a node apart from containers, which must be the same before the first of them and after the last. */
export interface Census {
  readonly flows: readonly string[];
  readonly groups: readonly string[];
  readonly meters: readonly string[];
  /** Tables of the database, with the number of rows of each. */
  readonly rows: Readonly<Record<string, number>>;
  readonly elements: readonly string[];
  readonly tracked: number;
}

const tables = ['Bridge', 'Port', 'Interface', 'Controller', 'Flow_Table', 'Mirror', 'QoS', 'Queue'];

export async function censusOf(lab: ConvergeLab): Promise<Census> {
  const dumped = async (what: string) =>
    (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', what, 'br-int')).split('\n').slice(1).toSorted();
  const [flows, groups, meters, elements, tracked] = [
    await lab.flows(1),
    await dumped('dump-groups'),
    await dumped('dump-meters'),
    await lab.exec(1, 'nft', 'list', 'ruleset'),
    await lab.exec(1, 'ovs-appctl', 'dpctl/dump-conntrack'),
  ];
  const counted = tables.map(async (table) => [
    table,
    lines(await lab.exec(1, 'ovs-vsctl', '--bare', '--columns=_uuid', 'list', table)).length,
  ]);
  return {
    // A new agent gives its flows another cookie.
    flows: flows.map(({ text }) => text.replace(/cookie=\w+, /, '')),
    groups,
    meters,
    rows: Object.fromEntries(await Promise.all(counted)) as Record<string, number>,
    elements: lines(elements.replaceAll(/counter packets \d+ bytes \d+/g, 'counter')),
    tracked: lines(tracked).length,
  };
}

function lines(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}

/** One sentence for each kind of object whose number, or set, has changed. */
export function orphansOf(before: Census, after: Census): readonly string[] {
  const found: string[] = [];
  for (const what of ['flows', 'groups', 'meters', 'elements'] as const) {
    const more = after[what].filter((one) => !before[what].includes(one));
    const less = before[what].filter((one) => !after[what].includes(one));
    if (more.length > 0) found.push(`${more.length} ${what} more than at first, such as ${more[0]}`);
    if (less.length > 0) found.push(`${less.length} ${what} are gone, such as ${less[0]}`);
  }
  for (const [table, rows] of Object.entries(after.rows))
    if (rows !== before.rows[table]) found.push(`${rows} rows in ${table}, and ${before.rows[table]} at first`);
  if (after.tracked > before.tracked) found.push(`${after.tracked} connections are tracked, and ${before.tracked} were at first`);
  return found;
}
