import { z } from 'zod';
import { firewallTable } from '../../../dataplane/compile/compile-firewall.ts';
import type { Nftables } from '../../../netlink/nftables/nftables.ts';
import { nftName, nftQuoted, objectsIn } from '../../../netlink/nftables/nftables.ts';
import type { Blocked } from './foreign-firewall.ts';

/** Marks a rule that Seine added to a chain of another program. */
const COMMENT = 'seine';

/** Chain of another program that decides about packets, as libnftables-json(5) lists it. */
const baseChain = z.object({
  chain: z.object({
    family: z.enum(['ip', 'ip6', 'inet']),
    table: z.string(),
    name: z.string(),
    type: z.literal('filter'),
    hook: z.enum(['forward', 'input']),
  }),
});

export type ForeignChain = z.output<typeof baseChain>['chain'];

export function foreignChains(nftables: Pick<Nftables, 'run'>): readonly ForeignChain[] {
  return objectsIn(nftables.run('list chains')).flatMap((object) => {
    const parsed = baseChain.safeParse(object);
    return parsed.success && parsed.data.chain.table !== firewallTable ? [parsed.data.chain] : [];
  });
}

/** Chains that may have dropped one of these packets. */
export function suspects(chains: readonly ForeignChain[], blocked: readonly Blocked[]): readonly ForeignChain[] {
  return chains.filter(({ family, hook }) =>
    blocked.some((each) => each.hook === hook && (family === 'inet' || family === (each.family === 'ipv4' ? 'ip' : 'ip6'))),
  );
}

/** Commands for an administrator that accept pods' packets in a chain; with the tool that created the chain. */
export function commandsFor({ family, table, name, hook }: ForeignChain, gateway: string): readonly string[] {
  const isIptables = table === 'filter' && family !== 'inet' && ['INPUT', 'FORWARD'].includes(name);
  const tool = family === 'ip6' ? 'ip6tables' : 'iptables';
  return directions(hook).map(({ flag, keyword }) =>
    isIptables
      ? `${tool} -I ${name} ${flag} ${gateway} -j ACCEPT`
      : `nft insert rule ${family} ${shellQuoted(table)} ${shellQuoted(name)} ${keyword} ${gateway} accept`,
  );
}

/** Inserts rules that accept pods' packets at the front of chains that have none of ours. @returns the number of changed chains */
export function openChains(nftables: Pick<Nftables, 'run'>, chains: readonly ForeignChain[], gateway: string): number {
  const closed = chains.filter((chain) => !isOpen(nftables, chain, gateway));
  const rules = closed.flatMap(({ family, table, name, hook }) =>
    directions(hook).map(
      ({ keyword }) =>
        `insert rule ${family} ${nftName(table)} ${nftName(name)} ${keyword} ${nftQuoted(gateway)} accept comment ${nftQuoted(COMMENT)}`,
    ),
  );
  if (rules.length > 0) nftables.run(rules.join('\n'));
  return closed.length;
}

const rule = z.object({ rule: z.object({ comment: z.literal(COMMENT), expr: z.array(z.unknown()) }) });

function isOpen(nftables: Pick<Nftables, 'run'>, { family, table, name, hook }: ForeignChain, gateway: string): boolean {
  const rules = objectsIn(nftables.run(`list chain ${family} ${nftName(table)} ${nftName(name)}`)).filter(
    (object) => rule.safeParse(object).success && JSON.stringify(object).includes(JSON.stringify(gateway)),
  );
  return rules.length >= directions(hook).length;
}

function directions(hook: Blocked['hook']): readonly { readonly flag: '-i' | '-o'; readonly keyword: 'iifname' | 'oifname' }[] {
  const into = { flag: '-i', keyword: 'iifname' } as const;
  return hook === 'input' ? [into] : [into, { flag: '-o', keyword: 'oifname' }];
}

/** The name comes from outside, and an administrator may paste the command. */
function shellQuoted(text: string): string {
  return /^[A-Za-z0-9_.-]+$/.test(text) ? text : `'${text.replaceAll(/[^ -~]|'/g, '?')}'`;
}
