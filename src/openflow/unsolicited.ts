import { SeineError } from '../base/errors/seine-error.ts';
import { decodeError, type ErrorMessage } from './error-message.ts';
import { decodeFlowUpdates, type FlowUpdate } from './flows/flow-monitor.ts';
import { decodeFlowRemoved, type FlowRemoved } from './flows/flow-removed.ts';
import { decodeMessage } from './message.ts';
import type { MonitorUpdate } from './messages/monitor.ts';
import { decodeMultipart, multipartType } from './multipart.ts';
import { decodePacketIn, decodePacketIn2, NXT_PACKET_IN2, type PacketIn } from './packet.ts';
import { decodePortStatus, type PortStatus } from './port.ts';
import { messageType, NICIRA, readHeader } from './protocol.ts';

/** Unsolicited message of a switch. `other` is one that this build does not model. */
export type Unsolicited =
  | { readonly kind: 'packetIn'; readonly packet: PacketIn }
  | { readonly kind: 'portStatus'; readonly status: PortStatus }
  | { readonly kind: 'flowRemoved'; readonly flow: FlowRemoved }
  | { readonly kind: 'flowUpdates'; readonly updates: readonly FlowUpdate[] }
  | { readonly kind: 'error'; readonly error: ErrorMessage; readonly xid: number }
  | { readonly kind: 'other'; readonly message: Uint8Array };

/** @throws SeineError `PROTOCOL` if the message is malformed */
export function decodeUnsolicited(message: Uint8Array): Unsolicited {
  const { type, xid } = readHeader(message);
  switch (type) {
    case messageType.packetIn:
      return { kind: 'packetIn', packet: decodePacketIn(message) };
    case messageType.portStatus:
      return { kind: 'portStatus', status: decodePortStatus(message) };
    case messageType.flowRemoved:
      return { kind: 'flowRemoved', flow: decodeFlowRemoved(message) };
    case messageType.error:
      return { kind: 'error', error: decodeError(message), xid };
    case messageType.experimenter:
      return isPacketIn2(message) ? { kind: 'packetIn', packet: decodePacketIn2(message) } : { kind: 'other', message };
    case messageType.multipartReply:
      return flowUpdates(message);
    default:
      return { kind: 'other', message };
  }
}

function isPacketIn2(message: Uint8Array): boolean {
  if (message.length < 16) return false;
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  return view.getUint32(8) === NICIRA && view.getUint32(12) === NXT_PACKET_IN2;
}

function flowUpdates(message: Uint8Array): Unsolicited {
  const part = decodeMultipart(message);
  if (part.type === multipartType.experimenter) return flowUpdatesIn13(message);
  return part.type === multipartType.flowMonitor
    ? { kind: 'flowUpdates', updates: decodeFlowUpdates(part.body) }
    : { kind: 'other', message };
}

/** Flow monitors are an extension there; its messages report pauses, where those of 1.5 have events. */
function flowUpdatesIn13(message: Uint8Array): Unsolicited {
  const reply = decodeMessage(message);
  if (reply.kind !== 'flowMonitorReply13') return { kind: 'other', message };
  return { kind: 'flowUpdates', updates: reply.body.updates.map(updateOf) };
}

function updateOf({ event, xid, flow }: MonitorUpdate): FlowUpdate {
  if (flow === undefined) return { event: 'abbreviated', xid: xid ?? 0 };
  if (event !== 'added' && event !== 'removed' && event !== 'modified') throw new SeineError('PROTOCOL', `flow update event ${event}`);
  const { reason, ...rest } = flow;
  return { event, ...rest, ...(event === 'removed' && typeof reason === 'string' ? { reason } : {}) };
}
