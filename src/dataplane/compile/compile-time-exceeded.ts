import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { reg } from '../pipeline/fields.ts';
import { type Flow, goto, load, meter, priority } from '../pipeline/flow.ts';
import { type EntryPattern, shareFlow } from '../pipeline/flow-pattern.ts';
import { timeExceededMeters } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/** Owner of the meters, and of the flows that use them. */
export const timeExceededOwner: Owner = ownerOf('node', 'time-exceeded');

/** Packets per second and burst of one share: `traceroute` sends three packets to each hop, `mtr` one a second. */
const answered = { rate: 10, burst: 30 } as const;

/** Bytes of a packet that the agent needs: an error quotes less (RFC 1812 section 4.3.2.3, RFC 4443 section 3.3). */
const SHOWN_BYTES = 1_294;

/** TTLs that leave nothing for another hop. Source: RFC 1812 section 5.3.1. */
const lastTtls = [0, 1] as const;

/**
 * Compiles flows for routed packets whose TTL or hop limit ends on this hop. They are not dropped in table `ttl`: they go the way of every
 * other packet, so that policy decides on them and connection tracking knows the connection that the answer is about. In place of an
 * output they go to `timeExceeded`, which drops them where the flows of `compileTimeExceeded` are absent.
 *
 * `dec_ttl` matches the TTL of a packet exactly, so that these flows do not add megaflows. Pure.
 */
export function expiringPackets(environment: NodeEnvironment): readonly Flow[] {
  const { mac } = environment.gateway;
  return [
    ...familiesOf(environment).flatMap((payload) =>
      lastTtls.map(
        (ttl): Flow => ({
          table: 'ttl',
          // Below the flows for packets whose hop the node's kernel counts.
          priority: priority.above,
          match: { payload, ttl, regs: [reg.routed('yes')] },
          steps: [{ do: 'setEthSrc', mac }, load(reg.expired('yes')), goto('snatMark')],
        }),
      ),
    ),
    { table: 'output', priority: priority.guard, match: { regs: [reg.expired('yes')] }, steps: [goto('timeExceeded')] },
  ];
}

/**
 * Compiles flows that send expired packets to the agent, which answers them (`TimeExceededResponder`). Senders whose addresses have the
 * same last six bits share a meter: one of them cannot use up the answers of all, and the sum of the shares bounds the work of the agent.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Pure.
 */
export function compileTimeExceeded(environment: NodeEnvironment): Wanted {
  const { first, count } = timeExceededMeters;
  const shares = Array.from({ length: count }, (_, value) => ({ value, id: first + value }));
  return {
    ...nothing,
    meters: shares.map(({ id }) => ({ id, unit: 'packets', ...answered })),
    flows: familiesOf(environment).flatMap((payload) => shares.map(({ id, value }) => shareFlow(answerOfShare, payload, value, id))),
  };
}

const answerOfShare: EntryPattern = ({ ip: { family }, numbers: [value, id] }) => ({
  table: 'timeExceeded',
  priority: priority.normal,
  match: { payload: family, ipSrcEnd: { value, mask: timeExceededMeters.count - 1 } },
  steps: [meter(id), { do: 'toAgent', reason: 'timeExceeded', bytes: SHOWN_BYTES }],
});
