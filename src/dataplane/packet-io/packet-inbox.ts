import { bytesOf } from '../../base/bytes/bytes.ts';
import { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { writeSetConfig, writeSetControllerId, writeUsePacketIn2 } from '../../openflow/control.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import { decodeUnsolicited } from '../../openflow/unsolicited.ts';
import { reg } from '../pipeline/fields.ts';
import { type PipelinePacketInReason, packetInReason } from '../pipeline/well-known.ts';
import { copyController, packetInController } from '../targets/bridge/encoding/to-openflow.ts';
import { numberOf } from './repeated.ts';

/** Reasons for which a packet does not continue. */
const probeEnds: ReadonlySet<number> = new Set(
  (['probe', 'noEndpoint', 'halfOpen', 'untranslated', 'unservedPort', 'timeExceeded', 'refused'] as const).map(
    (name) => packetInReason[name],
  ),
);

const WHOLE_PACKET = 0xffff;
/** Pause between reads of copies (ms). OVS and the socket hold about 300 meanwhile. */
const COPIES_EVERY_MS = 10;

/** Receives packets that the bridge sends to the agent, and sends messages about them. */
export interface PacketExchange {
  /** @param take called with each packet of this reason; its bytes are valid until it returns */
  readonly on: (reason: PipelinePacketInReason, take: (packet: PacketIn) => void) => void;
  /** Sends the messages in order. Refusals by OVS are not reported. */
  readonly send: (messages: readonly Uint8Array[]) => Promise<void>;
}

function isProbe({ fields }: PacketIn): boolean {
  return (numberOf(fields[`reg${reg.probe('yes').reg}` as 'reg11']) & reg.probe('yes').mask) !== 0;
}

/** Packets from the bridge to the agent, over a separate OpenFlow connection, so that a flood of them never delays programming. */
export class PacketInbox implements PacketExchange {
  readonly connection: OpenFlowConnection;
  readonly #signal: AbortSignal;
  readonly #takers = new Map<number, (packet: PacketIn) => void>();

  /** @param content `copies`: of packets that continue without the agent; they wait up to 10 ms, so that many are read together */
  constructor(endpoint: string, signal: AbortSignal, content: 'packets' | 'copies' = 'packets') {
    this.#signal = signal;
    const isCopies = content === 'copies';
    this.connection = new OpenFlowConnection({
      endpoint,
      greeting: [
        bytesOf(writeUsePacketIn2),
        bytesOf((w) => writeSetControllerId(w, isCopies ? copyController : packetInController)),
        // OVS sends no packet-ins to a management socket until the client has set how much of a packet it wants.
        bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: WHOLE_PACKET })),
      ],
      unsolicited: (bytes) => this.#receive(bytes),
      ...(isCopies && { readEveryMs: COPIES_EVERY_MS }),
    });
  }

  on(reason: PipelinePacketInReason, take: (packet: PacketIn) => void): void {
    this.#takers.set(packetInReason[reason], take);
  }

  send(messages: readonly Uint8Array[]): Promise<void> {
    return this.connection.send(messages, this.#signal);
  }

  run(): Promise<void> {
    return this.connection.run(this.#signal);
  }

  #receive(bytes: Uint8Array): void {
    const received = decodeUnsolicited(bytes);
    if (received.kind !== 'packetIn') return;
    const { packet } = received;
    const reason = packet.userdata?.[0];
    if (reason === undefined) return;
    // The agent answers and repeats no probe, whatever flow sent it; a copy for a log is not its end.
    if (!isProbe(packet)) this.#takers.get(reason)?.(packet);
    else if (probeEnds.has(reason)) this.#takers.get(packetInReason.probe)?.(packet);
  }
}
