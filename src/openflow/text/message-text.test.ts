import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { decodeMessage, type MessageKind } from '../message.ts';
import { printMessage } from './message-text.ts';

interface Line {
  readonly hex: string;
  readonly canonical?: string;
}

const lines = ['openflow-session', 'openflow-vectors', 'openflow-corpus', 'openflow13-corpus', 'openflow-rare'].flatMap((file) =>
  readFileSync(new URL(`../../../test/fixtures/${file}.jsonl`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): Line => JSON.parse(line)),
);

/** Kinds that we print with more detail than the tool, or in fewer words. */
const otherwise: ReadonlySet<MessageKind | 'unknown'> = new Set<MessageKind>([
  'tableStatsReply', // the tool folds tables that are alike
  'tableFeaturesReply',
  'groupFeaturesReply',
  'portDescReply', // the tool sorts the ports
  'tableDescReply', // the fixture has only the beginning of the text
  'flowRequest', // the tool leaves out cookie and group
  'requestForward', // the tool leaves out the message's name
  'tableMod', // the tool does not print how 1.3 treats misses, and cannot read its own eviction flags
  'niciraFlowRemoved',
  'ipfixBridgeReply',
  'ipfixFlowReply',
]);

/** The tool uses several lines where we use one. It also decodes the packet, which we print as bytes. */
function onOneLine(text: string): string {
  const packet = /OFPT_PACKET_|NXT_PACKET_IN2? |NXT_RESUME/.test(text);
  const line = text.replace(/\s+/g, ' ').trim();
  return packet ? line.replace(/ (data_len=\d+( \(unbuffered\))?).*/, ' $1') : line;
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, 'hex'));
}

describe('messages as text', () => {
  it('read as ovs-ofctl prints them', () => {
    let compared = 0;
    for (const { hex, canonical } of lines) {
      const message = decodeMessage(bytesOf(hex));
      if (canonical === undefined || otherwise.has(message.kind)) continue;
      // The tool omits the group of a delete.
      const ours = printMessage(message).replace(/ out_group:\d+/, '');
      expect(onOneLine(ours), hex).toBe(onOneLine(canonical));
      compared++;
    }
    expect(compared).toBeGreaterThan(900);
  });

  it('are one line each, whatever they are', () => {
    for (const { hex } of lines) expect(printMessage(decodeMessage(bytesOf(hex)))).not.toMatch(/\n|undefined|\[object/);
  });

  it('name an error, and the refused message even if only its start was returned', () => {
    const whole = '0601002400000002000900010612001800000002000f000000000000ffffffff00000001';
    expect(printMessage(decodeMessage(bytesOf(whole)))).toBe(
      'OFPT_ERROR (OF1.5) (xid=0x2): OFPQOFC_BAD_QUEUE OFPST_QUEUE_DESC request (OF1.5) (xid=0x2): port=ANY queue=1',
    );
    const cut = '0601001c00000002000200090' + '60e0048000000020000000000000000';
    const message = bytesOf(cut.padEnd(56, '0').slice(0, 56));
    expect(printMessage(decodeMessage(message))).toMatch(/OFPBAC_BAD_OUT_GROUP \(16 of 72 bytes of a message of type 14/);
    const greeting = bytesOf(`060100170000000100000000${Buffer.from('hello world').toString('hex')}`);
    expect(printMessage(decodeMessage(greeting))).toBe('OFPT_ERROR (OF1.5) (xid=0x1): OFPHFC_INCOMPATIBLE "hello world"');
  });
});
