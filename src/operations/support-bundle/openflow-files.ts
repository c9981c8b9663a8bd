import { tableName } from '../../dataplane/pipeline/tables.ts';
import { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { decodeTableStats, writeTableStatsRequest } from '../../openflow/control.ts';
import type { FlowStats } from '../../openflow/flows/flow-stats.ts';
import { decodeGroupStats, writeGroupStatsRequest } from '../../openflow/groups/group-stats.ts';
import { decodePortStats, decodePorts, writePortDescRequest, writePortStatsRequest } from '../../openflow/port.ts';
import { decodeDescription, writeDescriptionRequest } from '../../openflow/switch-description.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import { printGroup } from '../../openflow/text/group-text.ts';
import { printMeterSpec } from '../../openflow/text/meter-text.ts';
import { heldLine } from '../compiler-inputs/installed-bridge.ts';
import type { BundlePart } from './collect.ts';
import { plainJson, plainLine } from './plain-json.ts';

export const heldName = 'openflow/held.ndjson';
/** Ports of the bridge, with numbers and names. */
export const bridgePortsName = 'openflow/ports.ndjson';
const names = { table: tableName };

/** Entries and counters of the bridge, read from the bridge itself. */
export function openFlowParts(endpoint: string): readonly BundlePart[] {
  const part = (name: string, ask: (bridge: OpenFlowConnection, signal: AbortSignal) => Promise<string>): BundlePart => ({
    name,
    gather: (signal) => withBridge(endpoint, (bridge) => ask(bridge, signal), signal),
  });
  return [
    part(heldName, heldBridge),
    part('openflow/description.json', async (bridge, signal) =>
      plainJson(await bridge.gather(writeDescriptionRequest, decodeDescription, signal)),
    ),
    part('openflow/flows.txt', flowLines),
    part('openflow/groups.txt', async (bridge, signal) =>
      lines((await bridge.dumpGroups(signal)).map((group) => printGroup(group, names))),
    ),
    part('openflow/meters.txt', async (bridge, signal) => lines((await bridge.dumpMeters(signal)).map((meter) => printMeterSpec(meter)))),
    part('openflow/group-stats.ndjson', async (bridge, signal) =>
      lines((await bridge.gather(writeGroupStatsRequest, decodeGroupStats, signal)).map(plainLine)),
    ),
    part('openflow/table-stats.ndjson', async (bridge, signal) =>
      lines(
        (await bridge.gather(writeTableStatsRequest, decodeTableStats, signal)).map((stats) =>
          plainLine({ name: tableName(stats.table), ...stats }),
        ),
      ),
    ),
    part(bridgePortsName, async (bridge, signal) => lines((await bridge.gather(writePortDescRequest, decodePorts, signal)).map(plainLine))),
    part('openflow/port-stats.ndjson', async (bridge, signal) =>
      lines((await bridge.gather(writePortStatsRequest, decodePortStats, signal)).map(plainLine)),
    ),
  ];
}

/** Connection for one request: a part that hangs does not block the others. */
async function withBridge<T>(endpoint: string, ask: (bridge: OpenFlowConnection) => Promise<T>, signal: AbortSignal): Promise<T> {
  const over = new AbortController();
  const { promise: failure, reject } = Promise.withResolvers<never>();
  failure.catch(() => undefined); // raced with the request
  const bridge = new OpenFlowConnection({ endpoint, failed: reject, down: reject });
  const running = bridge.run(AbortSignal.any([signal, over.signal]));
  try {
    await Promise.race([bridge.untilUp(signal), failure]);
    return await Promise.race([ask(bridge), failure]);
  } finally {
    over.abort();
    await running;
  }
}

/** Exact entries of the bridge: `seinectl compile --check` compares with them. */
async function heldBridge(bridge: OpenFlowConnection, signal: AbortSignal): Promise<string> {
  const found = [
    ...(await bridge.dumpGroups(signal)).map((group) => heldLine({ group })),
    ...(await bridge.dumpMeters(signal)).map((meter) => heldLine({ meter })),
  ];
  await bridge.dumpFlows({}, (flow) => void found.push(heldLine({ flow })), signal);
  return lines(found);
}

/** Flows as ovs-ofctl prints them, with the counters of each in a comment. */
async function flowLines(bridge: OpenFlowConnection, signal: AbortSignal): Promise<string> {
  const found: { readonly flow: Pick<FlowStats, 'table' | 'priority'>; readonly text: string }[] = [];
  await bridge.dumpFlows(
    {},
    (flow) => {
      const { table, priority, packets, bytes, durationNs } = flow;
      const text = `${printFlow(flow, names)} # n_packets=${packets}, n_bytes=${bytes}, duration=${Number(durationNs / 1_000_000n) / 1_000}s`;
      found.push({ flow: { table, priority }, text });
    },
    signal,
  );
  return lines(found.toSorted(({ flow: a }, { flow: b }) => a.table - b.table || b.priority - a.priority).map(({ text }) => text));
}

function lines(texts: readonly string[]): string {
  return texts.map((text) => `${text}\n`).join('');
}
