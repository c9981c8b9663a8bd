import { setTimeout as sleep } from 'node:timers/promises';
import { type Family, parseIp } from '../../../base/net/ip.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import type { NodeReader } from '../entries/node-reader.ts';
import { type CheckContext, type FindingReporter, reportAll } from './check.ts';
import { openEcho, reaches } from './echo.ts';
import { assessPeer, type PeerFacts } from './tunnel-text.ts';

/** Time in which ovs-vswitchd updates counters (ms). */
const COUNTED_MS = 1_200;
/** Maximum number of peers without an answer that are inspected in detail. */
const CLOSELY_MAX = 16;
/** Number of echo requests sent meanwhile to each of them. */
const ECHOS = 5;

interface UnresponsivePeersOptions {
  readonly reader: Pick<NodeReader, 'tunnelPackets'>;
  readonly environment: NodeEnvironment;
  readonly reporter: FindingReporter;
  readonly blocked: CheckContext['blocked'];
}

/**
 * Peers that did not answer through the tunnel. The first of them are inspected in detail, as soon as there are enough of them: whether any
 * packet arrives from them, and whether they answer outside of the tunnel. The rest are reported at once without details, because the time
 * limit is short.
 */
export class UnresponsivePeers {
  readonly #options: UnresponsivePeersOptions;
  readonly #signal: AbortSignal;
  readonly #closely: PeerFacts[] = [];
  #count = 0;
  #inspection: Promise<void> | undefined;

  constructor(options: UnresponsivePeersOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  async add(asked: PeerFacts): Promise<void> {
    this.#count++;
    const facts = { ...asked, silentReplies: await this.#silentReplies() };
    if (this.#inspection !== undefined) reportAll(this.#options.reporter, assessPeer(facts));
    else if (this.#closely.push(facts) === CLOSELY_MAX) this.#look(this.#closely);
  }

  /** Families whose answers this node itself drops, whether or not one arrives. */
  async #silentReplies(): Promise<readonly Family[]> {
    const blocked = await this.#options.blocked().catch(() => []); // a failed test explains nothing
    return blocked.filter(({ hook }) => hook === 'input').map(({ family }) => family);
  }

  /** Called once all peers were queried and added. @param asked number of peers */
  async end(asked: number): Promise<void> {
    const allPeers = asked > 1 && this.#count === asked;
    if (this.#count > 0 && this.#inspection === undefined) this.#look(this.#closely.map((facts) => ({ ...facts, allPeers })));
    await this.#inspection;
  }

  #look(peers: readonly PeerFacts[]): void {
    this.#inspection = probeAgain(this.#options, peers, this.#signal);
    this.#inspection.catch(() => undefined); // thrown where the end is awaited
  }
}

async function probeAgain(
  { reader, environment, reporter }: UnresponsivePeersOptions,
  peers: readonly PeerFacts[],
  signal: AbortSignal,
): Promise<void> {
  reporter.progress(`${peers.length} did not answer: checking for packets from them`);
  const owners = peers.map(({ name }) => ownerOf('peer', name));
  const before = await reader.tunnelPackets(owners, signal);
  const [outside] = await Promise.all([
    Promise.all(peers.map((facts) => answersOutside(facts, signal))),
    Promise.all(peers.map((facts) => askAgain(facts, environment, signal))),
  ]);
  await sleep(COUNTED_MS, undefined, { signal });
  const after = await reader.tunnelPackets(owners, signal);
  for (const [at, facts] of peers.entries()) {
    const owner = ownerOf('peer', facts.name);
    const received = (after.get(owner) ?? 0n) > (before.get(owner) ?? 0n);
    reportAll(reporter, assessPeer({ ...facts, received, outside: outside[at] }));
  }
}

async function answersOutside({ transport }: PeerFacts, signal: AbortSignal): Promise<boolean | undefined> {
  if (!transport) return undefined;
  const echo = openEcho({ from: parseIp(transport.own), to: parseIp(transport.theirs) });
  if (!echo) return false;
  try {
    return (await reaches(echo, {}, signal)) === 'answered';
  } finally {
    echo.close();
  }
}

/** OVS counts the packets that arrive. */
async function askAgain({ ways }: PeerFacts, { gateway }: NodeEnvironment, signal: AbortSignal): Promise<void> {
  const asks = ways.map(async ({ family, to }) => {
    const from = gateway.addresses.find((ip) => ip.family === family);
    const echo = from && openEcho({ from, to: parseIp(to) });
    if (!echo) return;
    try {
      await reaches(echo, { attempts: ECHOS }, signal);
    } finally {
      echo.close();
    }
  });
  await Promise.all(asks);
}
