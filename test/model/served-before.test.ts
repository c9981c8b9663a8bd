import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteWriter } from '../../src/base/bytes/bytes.ts';
import {
  addFlow,
  encodeBridgeEntries,
  groupMessage,
  isFlowKey,
  isGroupKey,
  numberOf,
} from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import type { FlowFilter, FlowStats } from '../../src/openflow/flows/flow-stats.ts';
import { decodeGroupMod, type Group } from '../../src/openflow/groups/group.ts';
import { decodeMatch } from '../../src/openflow/match/match.ts';
import { serviceIntents } from '../../src/services/compile/intent.ts';
import { answerFor, endpointKey, type ServiceEndpoint, type ServiceIntent } from '../../src/services/compile/service-intent.ts';
import { staleSince } from '../../src/services/controller/effects/changed-endpoints.ts';
import { readServed, type ServedDestination, type ServedFlowReader } from '../../src/services/controller/effects/previously-served.ts';
import { ipProtocols, servedKey } from '../../src/services/controller/effects/stale-connections.ts';
import { clusters } from './random-services.ts';
import { exampleScene, type Scene, wantedByOwner } from './scene.ts';

/** Offset of the group's number in a request for its description (OpenFlow 1.5.1 `ofp_group_desc_request`). */
const GROUP_NUMBER = 16;
const transports = ['udp', 'tcp', 'sctp'] as const;
const { signal } = new AbortController();
const counted = { idleTimeout: 0, hardTimeout: 0, importance: 0, flags: 0, packets: 0n, bytes: 0n, durationNs: 0n };

/** A bridge with the whole desired state of a node. */
function bridgeOf(scene: Scene): ServedFlowReader {
  const flows: FlowStats[] = [];
  const groups = new Map<number, Group>();
  for (const [owner, wanted] of wantedByOwner(scene))
    for (const [key, value] of encodeBridgeEntries(owner, wanted)) {
      if (isGroupKey(key)) groups.set(numberOf(key), decodeGroupMod(groupMessage(value)));
      if (!isFlowKey(key)) continue;
      const { table = 0, priority = 0, cookie = 0n, match = new Uint8Array(), instructions = new Uint8Array() } = addFlow(key, value);
      flows.push({ ...counted, table, priority, cookie, match, instructions });
    }
  return {
    untilUp: async () => {},
    dumpFlows: async (filter, visit) => {
      for (const flow of flows) if (passes(flow, filter)) visit(flow);
    },
    gather: async <T>(write: (w: ByteWriter) => void): Promise<T[]> => {
      const w = new ByteWriter(64);
      write(w);
      const found = groups.get(new DataView(w.finish().slice().buffer).getUint32(GROUP_NUMBER));
      if (found === undefined) throw new Error('a flow leads to a group that is not there');
      return [found as T];
    },
  };
}

function passes(flow: FlowStats, { table, cookie = 0n, cookieMask = 0n, match = new Uint8Array() }: FlowFilter): boolean {
  if (flow.table !== table || (flow.cookie & cookieMask) !== cookie) return false;
  const [wanted, found] = [decodeMatch(match), decodeMatch(flow.match)];
  return wanted.ip_proto === found.ip_proto && wanted.eth_type === found.eth_type;
}

function intentsOf({ services, proxying }: Scene): readonly ServiceIntent[] {
  return services.flatMap(({ service, slices }) => serviceIntents(service, slices, proxying));
}

function servedIn(scene: Scene): ReadonlyMap<string, ServiceIntent> {
  return new Map(
    intentsOf(scene).flatMap((intent) =>
      intent.addresses.map((address) => [servedKey(ipProtocols[intent.transport], address), intent] as const),
    ),
  );
}

const texts = (endpoints: readonly ServiceEndpoint[]): string[] => endpoints.map(endpointKey).toSorted();

/** Promises of the compiler's input for each address, as sorted lines. */
function promisedLines(scene: Scene): string[] {
  return intentsOf(scene).flatMap((intent) =>
    intent.addresses.map(({ kind, ip, port }) => {
      const [inside, external] = (['pod', 'external'] as const).map((client) => {
        const answer = answerFor(intent, kind, client);
        return answer.do === 'balance' ? texts(answer.endpoints).join() : '';
      });
      return `${intent.transport} ${ip.text} ${port}: ${inside} | ${external}`;
    }),
  );
}

function readLines(led: readonly ServedDestination[]): string[] {
  return led.map(
    ({ transport, ip, port, inside, external }) =>
      `${transport} ${ip.text} ${port}: ${texts(inside).join()} | ${texts(external ?? inside).join()}`,
  );
}

describe('state that the bridge served before', () => {
  it('is read back from its flows and groups as it was desired, for any Services', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(clusters, fc.constant(exampleScene)), fc.boolean(), async (scene, bucketTranslation) => {
        const config = { ...scene.proxying.config, bucketTranslation };
        const each = { ...scene, proxying: { ...scene.proxying, config } };
        const read = await readServed(bridgeOf(each), transports, signal);
        expect(readLines(read).toSorted()).toEqual(promisedLines(each).toSorted());
      }),
    );
  });

  it('leaves nothing behind if nothing changed', async () => {
    await fc.assert(
      fc.asyncProperty(clusters, async (scene) => {
        const read = await readServed(bridgeOf(scene), transports, signal);
        expect(staleSince(read, servedIn(scene))).toMatchObject({ stale: { bridge: [], host: [] }, lost: 0 });
      }),
    );
  });

  it('leaves behind exactly the removed endpoints and addresses, and connections forwarded untranslated past new ones', async () => {
    await fc.assert(
      fc.asyncProperty(clusters, clusters, async (before, after) => {
        const led = await readServed(bridgeOf(before), transports, signal);
        const now = servedIn(after);
        const { stale } = staleSince(led, now);
        const lines = new Set(
          stale.bridge.map((each) => `${servedKey(each.ipProtocol, each.address)} > ${each.endpoint ? endpointKey(each.endpoint) : 'all'}`),
        );
        for (const each of led) {
          const key = servedKey(ipProtocols[each.transport], each);
          const intent = now.get(key);
          const kind = intent?.addresses.find(({ ip, port }) => ip.text === each.ip.text && port === each.port)?.kind;
          if (intent === undefined || kind === undefined) {
            expect(lines).toContain(`${key} > all`);
            continue;
          }
          const left = [...each.inside, ...(each.external ?? [])].filter((endpoint) => !mayReach(intent, kind, endpoint));
          for (const endpoint of left) expect([...lines].some((line) => line === `${key} > ${endpointKey(endpoint)}`)).toBe(true);
          const living = each.inside.filter((endpoint) => alwaysReached(intent, kind, endpoint));
          for (const endpoint of living) expect(lines).not.toContain(`${key} > ${endpointKey(endpoint)}`);
          if (living.length > 0) expect(lines).not.toContain(`${key} > all`);
        }
      }),
    );
  });
});

function reachedBy(
  intent: ServiceIntent,
  kind: Parameters<typeof answerFor>[1],
  client: 'pod' | 'external',
  endpoint: ServiceEndpoint,
): boolean {
  const answer = answerFor(intent, kind, client);
  return answer.do === 'balance' && answer.endpoints.some((each) => endpointKey(each) === endpointKey(endpoint));
}

function mayReach(intent: ServiceIntent, kind: Parameters<typeof answerFor>[1], endpoint: ServiceEndpoint): boolean {
  return reachedBy(intent, kind, 'pod', endpoint) || reachedBy(intent, kind, 'external', endpoint);
}

function alwaysReached(intent: ServiceIntent, kind: Parameters<typeof answerFor>[1], endpoint: ServiceEndpoint): boolean {
  return reachedBy(intent, kind, 'pod', endpoint) && reachedBy(intent, kind, 'external', endpoint);
}
