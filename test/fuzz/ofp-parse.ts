import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const echoRequest = 2;
const markBytes = 8;
/** Transaction ids of markers: 0xfeedXXXX, which nothing in the corpus has. */
const markBase = 0xfeed_0000;
const maxBatch = 10_000;

/** Result of ovs-ofctl for each message: its output, and the error's name if it rejected it. */
export interface OvsVerdict {
  readonly text: string;
  readonly error: string | undefined;
}

/**
 * Passes all the messages to one process of `ovs-ofctl ofp-parse`: after each comes an echo request of ours, so that the outputs can be
 * separated.
 *
 * @param messages at most 10,000, each with its right length in its header
 */
export async function ofpParse(messages: readonly Uint8Array[], signal: AbortSignal): Promise<OvsVerdict[]> {
  if (messages.length > maxBatch) throw new Error(`${messages.length} messages at once`);
  const file = join(tmpdir(), `seine-ofp-${process.pid}-${performance.now()}.bin`);
  writeFileSync(file, Buffer.concat(messages.flatMap((message, index) => [message, mark(index)])));
  try {
    const { stdout, stderr } = await run('ovs-ofctl', ['ofp-parse', file], { maxBuffer: 1 << 30, signal });
    return split(`${stdout}`, messages.length, stderr);
  } finally {
    rmSync(file);
  }
}

function mark(index: number): Uint8Array {
  const bytes = Buffer.alloc(markBytes);
  bytes.set([6, echoRequest, 0, markBytes]);
  bytes.writeUInt32BE(markBase + index, 4);
  return bytes;
}

function split(output: string, count: number, stderr: string): OvsVerdict[] {
  const verdicts: OvsVerdict[] = [];
  let from = 0;
  for (let index = 0; index < count; index++) {
    const line = `OFPT_ECHO_REQUEST (OF1.5) (xid=0x${(markBase + index).toString(16)}): 0 bytes of payload\n`;
    const at = output.indexOf(line, from);
    if (at < 0) throw new Error(`ofp-parse stopped at message ${index}: ${stderr.slice(0, 200)}`);
    verdicts.push(verdictOf(output.slice(from, at)));
    from = at + line.length;
  }
  return verdicts;
}

function verdictOf(text: string): OvsVerdict {
  return { text, error: /\*\*\*decode error: (\w+)\*\*\*/.exec(text)?.[1] };
}
