import { join } from 'node:path';
import { askSocket, type Place, runIn, runOn } from './host.ts';
import { byPod } from './pre-plugged.ts';
import { databaseLines } from './snapshot-database.ts';
import { farLines, hostLines, podLines } from './snapshot-host.ts';
import { packetFilterLines } from './snapshot-nftables.ts';
import { wireGuardLines } from './wireguard.ts';

/** State of a node, as lines of text in no particular order. */
export interface Snapshot {
  /** Flows, groups, meters and rows of the database, which refer to each other by allocated numbers. */
  readonly numbered: readonly string[];
  /** Problems in the status, routes, rules, neighbours, nftables, kernel settings, links, and OpenFlow settings besides flows. */
  readonly plain: readonly string[];
}

/** A pod whose namespace has another name on the compared node. */
export interface PodNamespace {
  readonly netns: string;
  readonly as: string;
  /** The node's end of its interface, which has another name there if it is pre-plugged. */
  readonly nodeEnd?: string | undefined;
}

/** Cookies of flows that the switch learns: of any generation, feature 255. */
const learnedCookie = /^cookie=0x[0-9a-f]{1,4}ff[0-9a-f]{10},/;

/** @param pods pods whose interior is included */
export async function snapshotOf(place: Place, pods: readonly PodNamespace[]): Promise<Snapshot> {
  const [flows, groups, meters, problems, settings, database, host, filter, wireGuard, far, ...inside] = await Promise.all([
    ofctl(place, '--no-stats', 'dump-flows'),
    ofctl(place, 'dump-groups'),
    ofctl(place, 'dump-meters'),
    problemLines(place),
    bridgeSettings(place),
    databaseLines(place),
    hostLines(place),
    packetFilterLines(place),
    wireGuardLines(place),
    farLines(place),
    ...pods.map(({ netns, as }) => podLines(as, (command, args) => runIn(netns, command, args))),
  ]);
  const renamed = (line: string): string => pods.reduce((text, { netns, as }) => text.replaceAll(netns, as), line);
  const used = new Map(pods.flatMap(({ nodeEnd, as }) => (nodeEnd === undefined ? [] : [[nodeEnd, as] as const])));
  const whole = {
    numbered: [
      ...flows.filter((line) => !learnedCookie.test(line)).map((line) => `flow ${withTable(line)}`),
      ...groups.map((line) => `group ${line}`),
      ...meters.map((line) => `meter ${line}`),
      ...database.map(renamed),
    ],
    plain: [...problems, ...settings, ...host, ...filter, ...wireGuard, ...far.map(renamed), ...inside.flat()],
  };
  return byPod(whole, used);
}

/** Flows that OVS has learned, which are created and expire with traffic. */
export async function learnedFlows(place: Place): Promise<readonly string[]> {
  const flows = await ofctl(place, '--no-stats', 'dump-flows');
  return flows.filter((line) => learnedCookie.test(line)).map(withTable);
}

async function ofctl(place: Place, ...what: readonly string[]): Promise<string[]> {
  return (await runOn(place, 'ovs-ofctl', '-O', 'OpenFlow15', ...what, 'br-int'))
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.includes(' reply (OF'));
}

/** Problems with answers of other nodes: a fresh node is on no link with them, and a link may be cut. */
const ofOtherNodes: ReadonlySet<string> = new Set(['mesh.peer', 'peer.direct', 'peer.handshake']);

/** Problems that the agent itself reports. */
async function problemLines({ rundir }: Place): Promise<string[]> {
  const { body } = await askSocket(join(rundir, 'run', 'agent.sock'), 'GET', '/v1/status');
  const found = JSON.parse(body) as { problems: { kind: string; about: string }[]; verdict: string };
  const problems = found.problems.filter(({ kind }) => !ofOtherNodes.has(kind));
  const verdict = found.problems.length > 0 && problems.length === 0 ? 'no problems' : found.verdict;
  return [`status: ${verdict}`, ...problems.map(({ kind, about }) => `problem ${kind} ${about}`)];
}

/** OpenFlow settings besides flows: of ports, and of fragments. */
async function bridgeSettings(place: Place): Promise<string[]> {
  const ports = (await ofctl(place, 'dump-ports-desc')).join('\n');
  const configured = [...ports.matchAll(/^(?:\d+|LOCAL)\((?<name>[^)]+)\): addr:\S+\s+config:\s+(?<config>.*)$/gm)];
  const fragments = (await runOn(place, 'ovs-ofctl', '-O', 'OpenFlow10', 'get-frags', 'br-int')).trim();
  return [`openflow ${fragments}`, ...configured.map(({ groups }) => `openflow port ${groups?.['name']} ${groups?.['config']}`)];
}

/** `ovs-ofctl` omits the first table's number. */
function withTable(flow: string): string {
  return /(?:^| )table=/.test(flow) ? flow : flow.replace(/^(?=priority)|(?<=^cookie=\w+, )/, 'table=0, ');
}
