import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { drawMutant, type Mutant } from './drawn-mutant.ts';
import { root } from './lab.ts';

const bridge = 'dataplane/targets/bridge/bridge-target.ts';

const muted = [
  'policy_rule_packets_left_out',
  'node_warnings',
  'ipam_journal_failed',
  'recorded_deletions',
  'ip_addresses',
  'refused_owners',
  'contested_entries',
  'repair_paused_seconds',
  'rejected_objects',
  'policy_closed_pods',
  'policy_suspensions',
  'policy_mode',
  'policy_faulty_count',
  'source_up_to_date',
  'source_held',
  'source_silence_seconds',
  'problems',
  'health_check_age_seconds',
  'openflow_connected',
  'ovsdb_connected',
  'conntrack_entries',
  'unknown_tunnel_peer_packets',
  'unrealized_revisions',
  'reconcile_failures_total',
  'reconcile_age_seconds',
  'cni_calls_total',
  'info',
] as const;

/** Handwritten mutants: omissions of an agent. The steps that detected them are in docs/records/chaos.md. */
export const mutants: Readonly<Record<string, Mutant>> = {
  'event-ignored': {
    what: 'a watch’s DELETED events are ignored',
    file: 'kubernetes/client/reflector/watch-event.ts',
    from: "    case 'DELETED':\n      return { type, object };",
    to: "    case 'DELETED':\n      return { type: type === 'DELETED' ? 'MODIFIED' : type, object };",
  },
  'flow-kept': {
    what: 'flows that are no longer desired are not removed',
    file: bridge,
    from: 'const removals = [...remove].filter(isFlowKey)',
    to: 'const removals = [...remove].filter(() => false)',
  },
  'group-stale': {
    what: 'groups that are no longer desired are not removed',
    file: bridge,
    from: 'const without = [...remove].filter(isGroupKey);',
    to: 'const without = [...remove].filter(() => false);',
  },
  'meter-kept': {
    what: 'undesired meters are not removed',
    file: bridge,
    from: 'await deleteMeters(this.#connection, [...remove].filter(isMeterKey), signal);',
    to: '',
  },
  'table-not-swept': {
    what: 'flows of the first table are not looked at',
    file: bridge,
    from: '(flow) => this.#learned?.covers(flow) ||',
    to: '(flow) => flow.table === 0 || this.#learned?.covers(flow) ||',
  },
  'element-kept': {
    what: 'elements of nftables are not removed',
    file: 'netlink/nftables/nft-elements.ts',
    from: '  if (remove.length > 0) lines.push(',
    to: '  if (remove.length > 1e9) lines.push(',
  },
  'peer-kept': {
    what: 'peers of the WireGuard device that are not desired stay',
    file: 'dataplane/targets/wireguard/wireguard-target.ts',
    from: "const gone = [...remove].filter((key) => key !== 'device').map(publicKeyOfPeer);",
    to: 'const gone: ReturnType<typeof publicKeyOfPeer>[] = [];',
  },
  'setting-left': {
    what: 'kernel settings are not written again',
    file: 'dataplane/targets/host/settings-target.ts',
    from: 'for (const [key, value] of forwardingLast) this.#put(key, value);',
    to: 'void forwardingLast;',
  },
  'route-kept': {
    what: 'undesired routes, addresses and neighbours are not removed',
    file: 'dataplane/targets/host/host-target.ts',
    from: 'this.#inParts(others, ',
    to: 'this.#inParts(others.slice(0, 0), ',
  },
  'mtu-left': {
    what: 'the MTU of a pod’s interface is not set again',
    file: 'dataplane/targets/links/links-target.ts',
    from: "{ state: 'up', mtu, alias,",
    to: "{ state: 'up', alias,",
  },
  'column-left': {
    what: 'what others write into the row of an interface stays',
    file: 'dataplane/targets/switch/switch-target.ts',
    from: '{ ...link, ...interfaceDefaults, error: undefined }',
    to: '{ ...link, error: undefined }',
  },
  'alert-mute': {
    what: 'metrics of alerts are not exported',
    file: 'operations/admin/metrics/scrape.ts',
    from: '    policy_rule_packets_left_out: one(rulesLeftOut),\n',
    to: muted.map((metric) => `    ${metric}: [],\n`).join(''),
  },
};

/**
 * An agent with a fault of the list, or `drawn-N`, drawn by the seed N. @returns script for node, its fault, and a function that deletes it
 */
export function makeMutant(name: string): { readonly agent: string; readonly what: string; readonly remove: () => void } {
  const drawn = /^drawn-(\d+)$/.exec(name)?.[1];
  const mutant = drawn === undefined ? mutants[name] : drawMutant(Number(drawn));
  if (mutant === undefined) throw new Error(`no mutant ${name}; there are drawn-N, ${Object.keys(mutants).join(', ')}`);
  const folder = join(root, '.cache', 'mutants');
  mkdirSync(folder, { recursive: true });
  // Next to the sources, for the packages that they import.
  const made = mkdtempSync(join(folder, `${name}-`));
  cpSync(join(root, 'src'), join(made, 'src'), { recursive: true });
  cpSync(join(root, 'package.json'), join(made, 'package.json'));
  const file = join(made, 'src', mutant.file);
  const text = readFileSync(file, 'utf8');
  if (text.split(mutant.from).length !== 2) throw new Error(`${mutant.file} does not have the text of ${name} once`);
  writeFileSync(
    file,
    text.replace(mutant.from, () => mutant.to),
  );
  return {
    agent: join(made, 'src', 'agent', 'main.ts'),
    what: `${mutant.file}: ${mutant.what}`,
    remove: () => rmSync(made, { recursive: true, force: true }),
  };
}
