import { bytesOf } from '../../base/bytes/bytes.ts';
import type { Action } from '../../openflow/actions/action.ts';
import type { Match } from '../../openflow/match/match.ts';
import { writePacketOut } from '../../openflow/packet.ts';
import { reg } from '../pipeline/fields.ts';
import { load, resubmit } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { toActions } from '../targets/bridge/encoding/to-openflow.ts';

/**
 * Returns a packet-out that repeats a received packet from connection tracking on. If it would be sent to the agent again, it is dropped.
 *
 * @param before actions that restore the original packet
 */
export function repeated(fields: Match, data: Uint8Array, before: readonly Action[] = []): Uint8Array | undefined {
  const { in_port: inPort } = fields;
  if (typeof inPort !== 'number') return undefined;
  const whole = (number: number, value: Match['reg0']): Mark => ({
    field: `reg${number}`,
    reg: number,
    value: numberOf(value),
    mask: 0xffff_ffff,
  });
  const marks = [whole(0, fields.reg0), whole(5, fields.reg5), reg.halfOpenProbe('repeated')];
  const actions = [...before, ...toActions([...marks.map(load), resubmit('track')])];
  return bytesOf((w) => writePacketOut(w, { fields: { in_port: inPort }, actions, data }));
}

export function numberOf(value: Match['reg0']): number {
  return typeof value === 'object' ? value.value : (value ?? 0);
}
