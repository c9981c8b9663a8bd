import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { corpus } from '../../test/fuzz/openflow-messages.ts';
import { leastCpuMs, survive } from '../../test/fuzz/openflow-survival.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { decodeActions } from './actions/actions.ts';
import { decodeBundleAdd, decodeBundleControl } from './bundle.ts';
import { OpenFlowFramer } from './connection/framer.ts';
import { offeredVersions } from './connection/hello.ts';
import { decodeConfig, decodeDesc, decodeFeatures, decodeRole, decodeTableStats } from './control.ts';
import { decodeFlowMod } from './flows/flow-mod.ts';
import { decodeFlowUpdates } from './flows/flow-monitor.ts';
import { decodeAggregate, visitFlowEntries } from './flows/flow-stats.ts';
import { decodeInstructions } from './flows/instructions.ts';
import { decodeGroupDescriptions, decodeGroupMod } from './groups/group.ts';
import { decodeGroupStats } from './groups/group-stats.ts';
import { decodeMatch } from './match/match.ts';
import { decodeMeterMod, decodeMeters } from './meter.ts';
import { decodeMultipart } from './multipart.ts';
import { decodePacketOut } from './packet.ts';
import { decodePortStats, decodePorts } from './port.ts';
import { messageType, readHeader } from './protocol.ts';
import { printInstructions } from './text/action-text.ts';
import { printMatch } from './text/match-text.ts';
import { decodeUnsolicited } from './unsolicited.ts';

/** Messages of all kinds: sent by ovs-ofctl, and sent by a switch of version 3.1. */
const messages = ['openflow-corpus.jsonl', 'openflow-replies.jsonl'].flatMap((file) =>
  readFileSync(new URL(`../../test/fixtures/${file}`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): Uint8Array => Uint8Array.from(Buffer.from((JSON.parse(line) as { hex: string }).hex, 'hex'))),
);

/** Maximum time for one message (ms). */
const maxMs = 50;

function decodeBody(message: Uint8Array): void {
  const { body } = decodeMultipart(message);
  const bodies = [
    decodeAggregate,
    decodeGroupDescriptions,
    decodeGroupStats,
    decodeMeters,
    decodePorts,
    decodePortStats,
    decodeTableStats,
    decodeDesc,
    decodeFlowUpdates,
  ];
  for (const decode of bodies) tolerate(() => decode(body));
  visitFlowEntries(body, (entry) => {
    tolerate(() => printMatch(decodeMatch(entry.match)));
    tolerate(() => printInstructions(decodeInstructions(entry.instructions)));
  });
}

/** Calls every decoder of messages of the type, even if the message is of another kind. */
function decodeAll(message: Uint8Array): void {
  if (message.length < 8) return;
  const { type } = readHeader(message);
  tolerate(() => decodeUnsolicited(message));
  tolerate(() => offeredVersions(message));
  if (type === messageType.flowMod) {
    const mod = decodeFlowMod(message);
    tolerate(() => printMatch(decodeMatch(mod.match)));
    printInstructions(decodeInstructions(mod.instructions));
  } else if (type === messageType.groupMod) decodeGroupMod(message);
  else if (type === messageType.meterMod) decodeMeterMod(message);
  else if (type === messageType.packetOut) decodePacketOut(message);
  else if (type === messageType.multipartReply || type === messageType.multipartRequest) decodeBody(message);
  else if (type === messageType.bundleControl) decodeBundleControl(message);
  else if (type === messageType.bundleAdd) decodeAll(decodeBundleAdd(message).message);
  else for (const decode of [decodeFeatures, decodeConfig, decodeRole]) tolerate(() => decode(message));
}

function tolerate(read: () => unknown): void {
  try {
    read();
  } catch (thrown) {
    if (!(thrown instanceof SeineError && thrown.code === 'PROTOCOL')) throw thrown;
  }
}

/** Expects no error but `PROTOCOL`, and no hang. Measures CPU time, since wall time grows on a busy host. */
function survives(message: Uint8Array): void {
  const before = performance.now();
  tolerate(() => decodeAll(message));
  if (performance.now() - before <= maxMs) return;
  const usedMs = leastCpuMs(() => tolerate(() => decodeAll(message)));
  if (usedMs > maxMs) throw new Error(`${usedMs} ms for ${Buffer.from(message).toString('hex')}`);
}

/** Like `survives`, with the correct length in the header: the framer passes no other messages. */
function survivesFramed(message: Uint8Array<ArrayBuffer>): void {
  new DataView(message.buffer).setUint16(2, message.length);
  survive(message);
}

describe('hostile messages', () => {
  it('of every truncation are read to the end or refused', () => {
    for (const message of messages) for (let length = 0; length < message.length; length++) survives(message.subarray(0, length));
    for (const message of corpus.filter(({ length }) => length < 160))
      for (let length = 8; length < message.length; length++) survivesFramed(message.slice(0, length));
  });

  it('of every wrong 16-bit number are read or refused', () => {
    const wrongs = [0, 1, 7, 8, 0xfff8];
    for (const message of messages.filter((each) => each.length < 700)) {
      for (let at = 8; at + 2 <= message.length; at += 2) {
        for (const wrong of [wrongs[at % wrongs.length] ?? 0, 0xffff]) {
          const copy = message.slice();
          new DataView(copy.buffer).setUint16(at, wrong);
          survives(copy);
          survivesFramed(copy);
        }
      }
    }
  });

  it('of random flips are read or refused', () => {
    const flip = fc.record({ at: fc.nat(), bit: fc.nat(7) });
    fc.assert(
      fc.property(fc.constantFrom(...messages), fc.array(flip, { minLength: 1, maxLength: 8 }), (message, flips) => {
        const copy = message.slice();
        for (const { at, bit } of flips) {
          const index = at % copy.length;
          copy[index] = (copy[index] ?? 0) ^ (1 << bit);
        }
        survives(copy);
      }),
      { numRuns: Number(process.env['SEINE_FC_RUNS'] ?? 5000) },
    );
  });

  it('of random actions are read or refused', () => {
    const action = fc.tuple(
      fc.constantFrom(0, 11, 16, 17, 18, 22, 25, 28, 0xffff),
      fc.integer({ min: 0, max: 5 }),
      fc.integer({ min: 0, max: 52 }),
      fc.uint8Array({ minLength: 40, maxLength: 40 }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 4 }), (actions) => {
        const bytes = Buffer.concat(
          actions.map(([type, units, subtype, rest]) => {
            const length = 8 * units;
            const head = Buffer.from([type >> 8, type & 255, length >> 8, length & 255, 0, 0, 0x23, 0x20, 0, subtype]);
            return Buffer.concat([head, rest]).subarray(0, Math.max(length, 8));
          }),
        );
        tolerate(() => decodeActions(bytes));
      }),
      { numRuns: 5000 },
    );
  });

  it('nested deeper than any flow are refused and not followed', () => {
    let bytes = Buffer.alloc(0);
    for (let depth = 0; depth < 200; depth++) {
      const head = Buffer.from('ffff00000000232' + '0002a000000000000', 'hex');
      bytes = Buffer.concat([head, bytes]);
      bytes.writeUInt16BE(bytes.length, 2);
    }
    expect(() => decodeActions(bytes)).toThrow(/deeper than/);
  });
});

it('a framer fed with noise gives messages or refuses', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 20 }), (chunks) => {
      const framer = new OpenFlowFramer();
      tolerate(() => {
        for (const chunk of chunks) for (const message of framer.push(chunk)) survives(message);
      });
      expect(framer.pendingBytes).toBeLessThan(0x10000);
    }),
  );
});
