import { flowRemovedReasons } from '../flows/flow-removed.ts';
import { matchBytes } from '../flows/layout-flow.ts';
import { framed, type Layout, list, mapped, oneOf, record, rest, u8, u16, u32, u64, zeros } from '../layout.ts';

/** Source: OpenFlow 1.5.1 `ofp_flow_monitor_request`; the flags are those of `monitorFlag`. */
export const monitorRequest = record({
  id: u32,
  outPort: u32,
  outGroup: u32,
  flags: u16,
  table: u8,
  command: oneOf(u8, ['add', 'modify', 'delete']),
  match: matchBytes,
});

export interface MonitorUpdate {
  readonly event: 'initial' | 'added' | 'removed' | 'modified' | 'abbreviated' | 'paused' | 'resumed' | number;
  /** Set for `abbreviated`: the message that made the change. */
  readonly xid?: number;
  readonly flow?: MonitoredFlow;
}

export interface MonitoredFlow {
  readonly table: number;
  /** Meaningful only if the flow was removed. */
  readonly reason: (typeof flowRemovedReasons)[number] | number;
  readonly idleTimeout: number;
  readonly hardTimeout: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly match: Uint8Array;
  readonly instructions: Uint8Array;
}

const events15 = ['initial', 'added', 'removed', 'modified', 'abbreviated', 'paused', 'resumed'] as const;
const flow15 = record({
  table: u8,
  reason: oneOf(u8, flowRemovedReasons),
  idleTimeout: u16,
  hardTimeout: u16,
  priority: u16,
  _zero: zeros(4),
  cookie: u64,
  match: matchBytes,
  instructions: rest,
});

/** Source: OpenFlow 1.5.1 `ofp_flow_update_full`, `ofp_flow_update_abbrev`, `ofp_flow_update_paused`. */
export const monitorUpdates = list(update(events15, flow15));

const flow13 = mapped(
  record({
    reason: oneOf(u16, flowRemovedReasons),
    priority: u16,
    idleTimeout: u16,
    hardTimeout: u16,
    matchBytes: u16,
    table: u8,
    _zero: zeros(1),
    cookie: u64,
    match: matchBytes,
    instructions: rest,
  }),
  ({ matchBytes: _, ...flow }): MonitoredFlow => flow,
  (flow) => ({ ...flow, matchBytes: lengthOfMatch(flow.match) }),
);

/** Length without padding, from its header. */
function lengthOfMatch(match: Uint8Array): number {
  return (match[2] ?? 0) * 256 + (match[3] ?? 0);
}

/** Source: Open vSwitch `nx_flow_update_full`; in OpenFlow 1.3 the extension EXT-187. */
export const monitorUpdates13 = list(update(['added', 'removed', 'modified', 'abbreviated'], flow13));

/** Source: Open vSwitch `ofp_flow_monitor_request` of OpenFlow 1.3: u32 id, u16 flags, u16 length of the match, u32 port, u8 table, 3 zero. */
export const monitorRequest13 = mapped(
  record({ id: u32, flags: u16, matchBytes: u16, outPort: u32, table: u8, _zero: zeros(3), match: matchBytes }),
  ({ matchBytes: _, ...request }) => request,
  (request) => ({ ...request, matchBytes: lengthOfMatch(request.match) }),
);

function update(events: readonly Exclude<MonitorUpdate['event'], number>[], flow: Layout<MonitoredFlow>): Layout<MonitorUpdate> {
  const event = oneOf(u16, events);
  return framed(
    'flow update',
    { lengthAt: 0, atLeast: 8 },
    {
      read: (r, version) => {
        const name = event.read(r.skip(2), version);
        if (name === 'abbreviated') return { event: name, xid: r.u32() };
        if (name === 'paused' || name === 'resumed') return { event: name };
        return { event: name, flow: flow.read(r, version) };
      },
      write: (w, value, version) => {
        event.write(w.zeros(2), value.event, version);
        if (value.flow !== undefined) flow.write(w, value.flow, version);
        else w.u32(value.xid ?? 0);
      },
    },
  );
}
