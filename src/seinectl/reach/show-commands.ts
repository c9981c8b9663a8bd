import { SeineError } from '../../base/errors/seine-error.ts';
import { readPort } from '../../policy/reach/cases.ts';
import { collapse } from '../../policy/reach/collapse.ts';
import { type ReachChange, reachDifference } from '../../policy/reach/difference.ts';
import { fromManifests, type ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { keyOf, type ReachObjects } from '../../policy/reach/objects.ts';
import { partyKey } from '../../policy/reach/party.ts';
import { Reach } from '../../policy/reach/reach.ts';
import { parseSelection, partiesOf } from '../../policy/reach/select.ts';
import { type ReachRow, reachTable, type TableFilter } from '../../policy/reach/table.ts';
import type { Unit } from '../../policy/reach/units.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { print } from '../output.ts';
import { type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { reachExitCodes } from './reach-exit-codes.ts';
import { remarkLack, reportDisagreements } from './reports.ts';
import { type ObjectSource, readManifests, readObjects } from './sources.ts';

export interface ReachOptions extends ObjectSource {
  readonly from?: string;
  readonly to?: string;
  readonly port?: string;
  readonly output: 'table' | 'json' | 'csv';
}

/** Names of ends that a cell shows before it counts the rest. */
const NAMES_SHOWN = 4;

/** `seinectl policy reach`: the connections that policies allow. @returns the exit code */
export async function showReach(options: ReachOptions, terminal: Terminal, env: ProcessVariables): Promise<number> {
  return showReachOf(await readObjects(options, env, (lack) => remarkLack(lack, terminal)), options, terminal);
}

/** The same about objects that are known. @returns the exit code */
export function showReachOf(objects: ReachObjects, options: Omit<ReachOptions, keyof ObjectSource>, terminal: Terminal): number {
  const reach = new Reach(objects);
  const { rows, units, confirmed, disagreements } = reachTable(reach, filterOf(reach, options));
  if (options.output === 'json') print(terminal, { rows, confirmed, notConfirmed: disagreements.length }, 'json');
  else if (options.output === 'csv') for (const line of csvLines(rows)) terminal.line(line);
  else {
    const decided = rows.filter(({ verdict, by }) => verdict === 'deny' || by.length > 0);
    for (const line of tableLines(reachColumns, collapse(decided, units), terminal.room)) terminal.line(line);
    const free = decided.length < rows.length ? ' No policy decides about the connections that are not listed: they are allowed.' : '';
    terminal.remark(`${count(confirmed, 'verdict')} confirmed by the reference.${free}`);
  }
  reportDisagreements(disagreements, terminal);
  return disagreements.length > 0 ? reachExitCodes.notConfirmed : reachExitCodes.ok;
}

function filterOf(reach: Reach, { from, to, port }: Pick<ReachOptions, 'from' | 'to' | 'port'>): TableFilter {
  const isUnit = (text: string | undefined): ((unit: Unit) => boolean) => {
    if (text === undefined) return () => true;
    const wanted = new Set(partiesOf(reach.objects, parseSelection(text)).map(partyKey));
    if (wanted.size === 0) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} selects nothing`);
    return ({ parties }) => parties.some((party) => wanted.has(partyKey(party)));
  };
  const asked = port === undefined ? undefined : readPort(port);
  if (asked?.of === 'name')
    throw new SeineError('INVALID_INPUT', `--port ${JSON.stringify(port)}: a number is required, pods differ in their names`);
  return {
    from: isUnit(from),
    to: isUnit(to),
    range: ({ protocol, first, last }) => {
      if (!asked || asked.of === 'any') return true;
      return asked.of === 'other' ? protocol === 'other' : protocol === asked.protocol && first <= asked.last && last >= asked.first;
    },
  };
}

type Shown<T> = ReturnType<typeof collapse<T & { from: string; to: string }>>[number];

const reachColumns: readonly TableColumn<Shown<ReachRow>>[] = [
  { title: 'FROM', of: ({ from }) => namesText(from) },
  { title: 'TO', of: ({ to }) => namesText(to) },
  { title: 'FAMILY', of: ({ outcome }) => familyText(outcome.family) },
  { title: 'PORTS', of: ({ outcome }) => outcome.ports },
  { title: 'VERDICT', of: ({ outcome }) => outcome.verdict, tone: ({ outcome }) => (outcome.verdict === 'allow' ? 'good' : 'bad') },
  { title: 'BY', of: ({ outcome }) => outcome.by.join(', '), flexible: true },
];

function namesText(names: readonly string[]): string {
  const shown = names
    .slice(0, NAMES_SHOWN)
    .map((name) => (name === '*' ? 'all pods' : name))
    .join(', ');
  return names.length > NAMES_SHOWN ? `${shown} and ${names.length - NAMES_SHOWN} more` : shown;
}

function familyText(family: ReachRow['family']): string {
  return family === undefined ? '' : { ipv4: 'IPv4', ipv6: 'IPv6' }[family];
}

function csvLines(rows: readonly ReachRow[]): readonly string[] {
  const cells = rows.map(({ from, to, family, ports, verdict, by }) => [from, to, familyText(family), ports, verdict, by.join(' ')]);
  return [['from', 'to', 'family', 'ports', 'verdict', 'by'], ...cells].map((line) => line.map(csvCell).join(','));
}

/** Quotes a cell (RFC 4180). A cell that a spreadsheet would read as a formula gets an apostrophe. */
function csvCell(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

export interface DiffOptions extends ObjectSource {
  /** Files with objects that are added or replaced. */
  readonly apply?: readonly string[];
  /** Objects that are removed, `KIND/NAMESPACE/NAME`. */
  readonly delete?: readonly string[];
  readonly output: 'table' | 'json';
}

const signs = { opened: '+', closed: '-', 'other rule': '~' } as const;
const tones = { opened: 'good', closed: 'bad', 'other rule': undefined } as const;

const diffColumns: readonly TableColumn<Shown<ReachChange>>[] = [
  { title: '', of: ({ outcome }) => signs[outcome.change], tone: ({ outcome }) => tones[outcome.change] },
  { title: 'FROM', of: ({ from }) => namesText(from) },
  { title: 'TO', of: ({ to }) => namesText(to) },
  { title: 'FAMILY', of: ({ outcome }) => familyText(outcome.family) },
  { title: 'PORTS', of: ({ outcome }) => outcome.ports },
  { title: 'BEFORE', of: ({ outcome }) => stateText(outcome.before), flexible: true },
  { title: 'AFTER', of: ({ outcome }) => stateText(outcome.after), flexible: true },
];

function stateText({ verdict, by }: ReachChange['before']): string {
  return by.length === 0 ? verdict : `${verdict}: ${by.join(', ')}`;
}

/** `seinectl policy diff`: the connections that a change opens and closes. @returns the exit code */
export async function showDiff(options: DiffOptions, terminal: Terminal, env: ProcessVariables): Promise<number> {
  const before = await readObjects(options, env, (lack) => remarkLack(lack, terminal));
  const after = withChanges(before, (options.apply ?? []).flatMap(readManifests), options.delete ?? []);
  const { changes, units, confirmed, disagreements } = reachDifference(before, after);
  if (options.output === 'json') print(terminal, { changes, confirmed, notConfirmed: disagreements.length }, 'json');
  else if (changes.length > 0) for (const line of tableLines(diffColumns, collapse(changes, units), terminal.room)) terminal.line(line);
  const counted = (change: ReachChange['change']): number => changes.filter((each) => each.change === change).length;
  terminal.remark(
    changes.length === 0
      ? 'no connection changes'
      : `pairs of workloads: ${counted('opened')} opened, ${counted('closed')} closed, ${counted('other rule')} decided by another rule; ${count(confirmed, 'verdict')} confirmed by the reference`,
  );
  reportDisagreements(disagreements, terminal);
  if (disagreements.length > 0) return reachExitCodes.notConfirmed;
  return changes.length > 0 ? reachExitCodes.different : reachExitCodes.ok;
}

/**
 * Applies changes to the objects. Only policies, and labels of namespaces, are replaced: pods and nodes of a cluster do not come from files.
 *
 * @throws SeineError `INVALID_INPUT` for another kind, or an object to delete that does not exist
 */
export function withChanges(objects: ReachObjects, documents: readonly ManifestDocument[], removed: readonly string[]): ReachObjects {
  const { objects: added } = fromManifests(documents);
  const [pod] = added.pods;
  if (pod) throw new SeineError('INVALID_INPUT', `${keyOf(pod)} is a pod or a workload: only policies and namespaces can be changed`);
  const gone = new Set(removed.map((text) => removedPolicy(objects, text)));
  const replaced = new Set(added.networkPolicies.map(keyOf));
  const { clusterNetworkPolicies: addedClusterPolicies = [] } = added;
  const replacedClusterPolicies = new Set(addedClusterPolicies.map(({ metadata }) => metadata.name));
  const namespaces = new Map(objects.namespaces.map((each) => [each.metadata.name, each]));
  const written = new Set(documents.flatMap(({ object }) => namespaceNames(object)));
  for (const namespace of added.namespaces)
    if (written.has(namespace.metadata.name) || !namespaces.has(namespace.metadata.name))
      namespaces.set(namespace.metadata.name, namespace);
  return {
    ...objects,
    namespaces: [...namespaces.values()],
    networkPolicies: [
      ...objects.networkPolicies.filter((policy) => !replaced.has(keyOf(policy)) && !gone.has(`networkpolicy/${keyOf(policy)}`)),
      ...added.networkPolicies,
    ],
    clusterNetworkPolicies: [
      ...(objects.clusterNetworkPolicies ?? []).filter(
        ({ metadata: { name } }) => !replacedClusterPolicies.has(name) && !gone.has(`clusternetworkpolicy/${name}`),
      ),
      ...addedClusterPolicies,
    ],
  };
}

/** Returns `kind/key` of a policy to delete. */
function removedPolicy({ networkPolicies, clusterNetworkPolicies = [] }: ReachObjects, text: string): string {
  const names = new Set([
    ...networkPolicies.map((policy) => `networkpolicy/${keyOf(policy)}`),
    ...clusterNetworkPolicies.map(({ metadata }) => `clusternetworkpolicy/${metadata.name}`),
  ]);
  const [kind = '', ...key] = text.split('/');
  const name = [kind.toLowerCase(), ...key].join('/');
  if (!/^(?:networkpolicy\/[^/]+\/[^/]+|clusternetworkpolicy\/[^/]+)$/.test(name))
    throw new SeineError(
      'INVALID_INPUT',
      `--delete ${JSON.stringify(text)} is not networkpolicy/NAMESPACE/NAME or clusternetworkpolicy/NAME`,
    );
  if (!names.has(name)) throw new SeineError('INVALID_INPUT', `--delete: there is no ${JSON.stringify(name)}`);
  return name;
}

function namespaceNames(object: unknown): readonly string[] {
  if (typeof object !== 'object' || object === null) return [];
  const { kind, items, metadata } = object as { kind?: unknown; items?: unknown; metadata?: { name?: unknown } };
  if (Array.isArray(items)) return items.flatMap(namespaceNames);
  return kind === 'Namespace' && typeof metadata?.name === 'string' ? [metadata.name] : [];
}
