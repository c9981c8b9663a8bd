import type { CtState } from '../../src/pipeline/flow.ts';
import { type TableName, tableName } from '../../src/pipeline/tables.ts';
import type { Arrival } from '../model/conversation.ts';
import { encodeFrame } from './frame.ts';
import type { Unixctl } from './unixctl.ts';

/** What a trace pretends. */
export interface Pretence {
  /** Bits of `ct_state` after the first `ct()`, the second, … */
  readonly states: readonly (readonly CtState[])[];
  readonly ctMark: number;
  /** Which slot of a group the packet falls into; not 0, which means that the hash is not known yet. */
  readonly dpHash: number;
}

export interface Traced {
  /** In the order of their visits, each as often as it was visited. */
  readonly tables: readonly TableName[];
  /** Ports by number, as the last table's actions name them. */
  readonly outputs: readonly number[];
  readonly text: string;
}

/** Asks the switch what it would do. Source: ovs-vswitchd(8) "ofproto/trace". */
export async function trace(control: Unixctl, { inPort, packet }: Arrival, { states, ctMark, dpHash }: Pretence): Promise<Traced> {
  const { tunSrc, tunDst } = packet;
  const outer = [tunSrc && `${key(tunSrc.family, 'src')}=${tunSrc.text}`, tunDst && `${key(tunDst.family, 'dst')}=${tunDst.text}`];
  // A mark counts only on a packet that was tracked.
  const metadata = [
    `in_port=${inPort}`,
    'ct_state=trk',
    `ct_mark=${ctMark}`,
    `dp_hash=${dpHash}`,
    ...outer.filter((part) => part !== undefined),
  ];
  const next = states.flatMap((state) => ['--ct-next', state.join(',')]);
  const text = await control.run('ofproto/trace', 'br-int', metadata.join(','), Buffer.from(encodeFrame(packet)).toString('hex'), ...next);
  return { ...visits(text), text };
}

function key(family: 'ipv4' | 'ipv6', end: 'src' | 'dst'): string {
  return `tun_${family === 'ipv6' ? 'ipv6_' : ''}${end}`;
}

/** Tables and outputs of `br-int`; where a packet goes on by the tunnel, the next bridge's follow. */
function visits(text: string): Pick<Traced, 'tables' | 'outputs'> {
  const tables: TableName[] = [];
  const outputs: number[] = [];
  let ours = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('bridge(')) ours = line.includes('"br-int"');
    if (!ours) continue;
    const [, number] = /^\s*(\d+)\. /.exec(line) ?? [];
    const table = number === undefined ? undefined : tableName(Number(number));
    if (table) tables.push(table);
    const [, port] = /^\s+(?:-> output port is |output:)(\d+)$/.exec(line) ?? [];
    if (port !== undefined) outputs.push(Number(port));
  }
  return { tables, outputs };
}
