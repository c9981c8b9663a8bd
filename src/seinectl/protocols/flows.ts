import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { SeineError } from '../../base/errors/seine-error.ts';
import { encodeMessage, type Message } from '../../openflow/message.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from '../../openflow/protocol.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import { printGroup } from '../../openflow/text/group-text.ts';
import { printMeterSpec } from '../../openflow/text/meter-text.ts';
import { encodeParsedFlow, parseFlow } from '../../openflow/text/parse-flow.ts';
import { parseGroup } from '../../openflow/text/parse-group.ts';
import { parseMeter } from '../../openflow/text/parse-meter.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { linesOf } from '../lines.ts';
import type { Terminal } from '../terminal.ts';

export const versionsByName = { OpenFlow13: OPENFLOW_13, OpenFlow15: OPENFLOW_15 } as const;

export interface FlowsOptions {
  readonly hex?: true;
  readonly protocol: keyof typeof versionsByName;
}

/** `seinectl wire flows`: reads each line and writes it again. Errors go to standard error. @returns 1 if there are any */
export async function flows(file: string | undefined, options: FlowsOptions, terminal: Terminal, stdin: Readable): Promise<number> {
  const fromFile = file !== undefined && file !== '-';
  const name = fromFile ? file : 'standard input';
  let number = 0;
  let failed = false;
  for await (const line of linesOf(fromFile ? createReadStream(file) : stdin, name)) {
    number++;
    const text = withoutComment(line);
    if (text === '' || isHeading.test(text)) continue;
    try {
      terminal.line(safeLine(again(text, options)));
    } catch (thrown) {
      if (!(thrown instanceof SeineError)) throw thrown;
      failed = true;
      terminal.remark(safeLine(`${name}:${number}:${columnOf(line, thrown)}: ${reason(thrown)}`));
    }
  }
  return failed ? exitCodes.different : exitCodes.ok;
}

/** Heading that `dump-flows` and similar commands print before the flows. */
const isHeading = /^\w+ reply \(/;

function withoutComment(line: string): string {
  return line.replace(/#.*$/, '').trim();
}

function again(text: string, { hex, protocol }: FlowsOptions): string {
  const version = versionsByName[protocol];
  if (/^\s*group_id\s*=/.test(text) || /[\s,]group_id\s*=/.test(text)) return groupAgain(text, hex === true, version);
  if (/^\s*meter\s*=/.test(text)) return meterAgain(text, hex === true, version);
  const flow = encodeParsedFlow(parseFlow(text), 'add', version);
  if (hex) return hexOf({ kind: 'flowMod', version, xid: 0, body: flow });
  const { cookie = 0n, idleTimeout = 0, hardTimeout = 0, importance = 0, flags = 0 } = flow;
  return printFlow({ ...flow, cookie, idleTimeout, hardTimeout, importance, flags }, {}, version);
}

function groupAgain(text: string, hex: boolean, version: Version): string {
  const group = parseGroup(text);
  const bytes = hexOf({ kind: 'groupMod', version, xid: 0, body: { command: 'add', ...group } }); // also checks whether the version can represent it
  if (hex) return bytes;
  return version === OPENFLOW_15 ? printGroup(group) : printGroup(group).replaceAll(/bucket=bucket_id:\d+,/g, 'bucket=');
}

function meterAgain(text: string, hex: boolean, version: Version): string {
  const meter = parseMeter(text);
  return hex ? hexOf({ kind: 'meterMod', version, xid: 0, body: { command: 'add', ...meter } }) : printMeterSpec(meter);
}

function hexOf(message: Message): string {
  return Buffer.from(encodeMessage(message)).toString('hex');
}

/** Columns count from 1. If the token occurs more than once, it is the first that begins a part. */
function columnOf(line: string, { context }: SeineError): number {
  const { token } = context;
  if (typeof token !== 'string' || token === '') return 1;
  for (let at = line.indexOf(token); at >= 0; at = line.indexOf(token, at + 1)) {
    const before = line.charAt(at - 1);
    if (at === 0 || !/\w/.test(before) || !/^\w/.test(token)) return at + 1;
  }
  return Math.max(line.indexOf(token), 0) + 1;
}

function reason({ message }: SeineError): string {
  return message.replace(/^\[\w+\] /, '');
}
